-- A mutation appends under a lock of the ordering key that it holds until its commit, so
-- positions of a key become visible in order.
CREATE TABLE bff_consumer.outbox (
	id              text COLLATE "C" PRIMARY KEY CHECK (id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	topic           text NOT NULL,
	payload         json NOT NULL, -- and not jsonb: it is published as it was written
	headers         jsonb NOT NULL,
	retention_class text NOT NULL CHECK (retention_class IN ('operational', 'audit')),
	created_at      timestamptz NOT NULL DEFAULT now(),
	published_at    timestamptz,
	attempts        integer NOT NULL DEFAULT 0,
	last_error      text,
	position        bigint GENERATED ALWAYS AS IDENTITY,
	ordering_key    text COLLATE "C" NOT NULL,
	subject         text NOT NULL,
	next_attempt_at timestamptz,
	dead_at         timestamptz
);

CREATE INDEX ix_outbox_unpublished ON bff_consumer.outbox (position)
	WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX ix_outbox_published ON bff_consumer.outbox (published_at)
	WHERE published_at IS NOT NULL;

-- The ID of an event is unique for its source.
CREATE TABLE bff_consumer.inbox (
	source       text COLLATE "C" NOT NULL,
	event_id     text COLLATE "C" NOT NULL,
	subject      text NOT NULL,
	received_at  timestamptz NOT NULL DEFAULT now(),
	processed_at timestamptz,
	digest       bytea NOT NULL CHECK (length(digest) = 32),
	PRIMARY KEY (source, event_id)
);

CREATE INDEX ix_inbox_received ON bff_consumer.inbox (received_at);
