-- Refused attempts to consume a handoff: one row per handoff and reason.
CREATE TABLE bff_consumer.handoff_refusals (
	handoff_id text COLLATE "C" NOT NULL CHECK (handoff_id LIKE 'bhd\_%'),
	reason     text COLLATE "C" NOT NULL CHECK (reason <> ''),
	attempts   bigint NOT NULL CHECK (attempts > 0),
	first_at   timestamptz NOT NULL,
	last_at    timestamptz NOT NULL CHECK (last_at >= first_at),
	PRIMARY KEY (handoff_id, reason)
);

CREATE INDEX ix_handoff_refusals_last ON bff_consumer.handoff_refusals (last_at);
