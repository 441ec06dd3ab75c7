-- A mutation appends under a lock on the ordering key and holds it until the commit, so positions of a key become visible
-- in order. Other transactions commit in any order, so the relay looks for unpublished rows instead of rows above
-- a position.
CREATE TABLE bff_consumer.outbox (
	id              text COLLATE "C" PRIMARY KEY CHECK (id ~ '^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	topic           text NOT NULL,
	payload         json NOT NULL, -- not jsonb: published byte for byte
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
	dead_at         timestamptz,
	part            smallint NOT NULL GENERATED ALWAYS AS (((ascii(right(ordering_key, 1)) & 15) + 9 * (ascii(right(ordering_key, 1)) >> 6)) % 16) STORED
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000, vacuum_index_cleanup = on);

CREATE INDEX ix_outbox_unpublished ON bff_consumer.outbox (part, position)
	WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX ix_outbox_delayed ON bff_consumer.outbox (ordering_key, position)
	WHERE published_at IS NULL AND dead_at IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX ix_outbox_dead ON bff_consumer.outbox (position)
	WHERE dead_at IS NOT NULL;
CREATE INDEX ix_outbox_published ON bff_consumer.outbox (retention_class, published_at)
	WHERE published_at IS NOT NULL;

-- A lease for each partition, and one for polling.
CREATE TABLE bff_consumer.outbox_relay (
	part       smallint PRIMARY KEY,
	holder     text NOT NULL,
	held_until timestamptz NOT NULL
);
INSERT INTO bff_consumer.outbox_relay SELECT n, '', '-infinity' FROM generate_series(0, 16) n;

-- Event IDs are unique per source.
CREATE TABLE bff_consumer.inbox (
	source       text COLLATE "C" NOT NULL,
	event_id     text COLLATE "C" NOT NULL,
	subject      text NOT NULL, -- event type
	received_at  timestamptz NOT NULL DEFAULT now(),
	processed_at timestamptz,
	digest       bytea NOT NULL CHECK (length(digest) = 32),
	PRIMARY KEY (source, event_id)
);

CREATE INDEX ix_inbox_received ON bff_consumer.inbox (received_at);

-- Events without effect: their ID was reused, or they are invalid.
CREATE TABLE bff_consumer.inbox_quarantine (
	source      text COLLATE "C" NOT NULL,
	event_id    text COLLATE "C" NOT NULL,
	subject     text NOT NULL,
	event_at    timestamptz NOT NULL,
	digest      bytea NOT NULL CHECK (length(digest) = 32),
	body        bytea NOT NULL,
	reason      text NOT NULL,
	received_at timestamptz NOT NULL,
	PRIMARY KEY (source, event_id, digest)
);
