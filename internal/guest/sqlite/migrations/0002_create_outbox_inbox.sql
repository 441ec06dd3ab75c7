-- position is the commit order, in which an ordering key's events are published.
CREATE TABLE bff_consumer_outbox (
	position        INTEGER PRIMARY KEY AUTOINCREMENT,
	id              TEXT    NOT NULL UNIQUE CHECK (length(id) = 30 AND id GLOB 'evt_[0-7]*'),
	topic           TEXT    NOT NULL,
	ordering_key    TEXT    NOT NULL CHECK (ordering_key <> ''),
	subject         TEXT    NOT NULL,
	payload         TEXT    NOT NULL CHECK (json_valid(payload)),
	headers         TEXT    NOT NULL CHECK (json_valid(headers)),
	retention_class TEXT    NOT NULL CHECK (retention_class IN ('operational', 'audit')),
	created_at      INTEGER NOT NULL,
	published_at    INTEGER,
	attempts        INTEGER NOT NULL DEFAULT 0,
	last_error      TEXT,
	next_attempt_at INTEGER,
	dead_at         INTEGER,
	part            INTEGER NOT NULL GENERATED ALWAYS AS
		(((unicode(substr(ordering_key, -1)) & 15) + 9 * (unicode(substr(ordering_key, -1)) >> 6)) % 16) VIRTUAL
) STRICT;

CREATE INDEX bff_consumer_ix_outbox_unpublished ON bff_consumer_outbox (position)
	WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX bff_consumer_ix_outbox_delayed ON bff_consumer_outbox (ordering_key, position)
	WHERE published_at IS NULL AND dead_at IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX bff_consumer_ix_outbox_dead ON bff_consumer_outbox (position)
	WHERE dead_at IS NOT NULL;
CREATE INDEX bff_consumer_ix_outbox_published ON bff_consumer_outbox (retention_class, published_at)
	WHERE published_at IS NOT NULL;

-- A lease for each partition, and one for polling.
CREATE TABLE bff_consumer_outbox_relay (
	part       INTEGER PRIMARY KEY,
	holder     TEXT    NOT NULL,
	held_until INTEGER NOT NULL
) STRICT;

-- Event IDs are unique per source.
CREATE TABLE bff_consumer_inbox (
	source       TEXT    NOT NULL,
	event_id     TEXT    NOT NULL,
	subject      TEXT    NOT NULL, -- event type
	received_at  INTEGER NOT NULL,
	processed_at INTEGER,
	digest       BLOB    NOT NULL CHECK (length(digest) = 32),
	PRIMARY KEY (source, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_inbox_received ON bff_consumer_inbox (received_at);

-- Events without effect: their ID was reused, or they are invalid.
CREATE TABLE bff_consumer_inbox_quarantine (
	source      TEXT    NOT NULL,
	event_id    TEXT    NOT NULL,
	subject     TEXT    NOT NULL,
	event_at    INTEGER NOT NULL,
	digest      BLOB    NOT NULL CHECK (length(digest) = 32),
	body        BLOB    NOT NULL,
	reason      TEXT    NOT NULL,
	received_at INTEGER NOT NULL,
	PRIMARY KEY (source, event_id, digest)
) STRICT, WITHOUT ROWID;
