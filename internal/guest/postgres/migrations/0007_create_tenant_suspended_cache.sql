-- A reinstated tenant keeps its row, so older events for it have no effect.
CREATE TABLE bff_consumer.tenant_suspended_cache (
	tenant_id     uuid PRIMARY KEY,
	suspended     boolean NOT NULL,
	suspended_at  timestamptz NOT NULL,
	reason        text NOT NULL,
	last_event_at timestamptz NOT NULL,
	last_event_id text COLLATE "C" NOT NULL,
	refreshed_at  timestamptz NOT NULL DEFAULT now()
);
