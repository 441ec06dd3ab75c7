-- JSON columns would change the bytes of a stored answer. WITHOUT ROWID would move content above a quarter of a page to
-- its own page, e.g. the answer to a mint.
CREATE TABLE bff_consumer_idempotency_keys (
	composite_key    TEXT    NOT NULL PRIMARY KEY CHECK (length(composite_key) = 64),
	guest_session_id TEXT    NOT NULL,
	route            TEXT    NOT NULL,
	request_digest   BLOB    NOT NULL CHECK (length(request_digest) = 32),
	response_status  INTEGER NOT NULL,
	content_type     TEXT    NOT NULL,
	location         TEXT    NOT NULL,
	response_body    BLOB    NOT NULL,
	created_at       INTEGER NOT NULL,
	expires_at       INTEGER NOT NULL
) STRICT;

CREATE INDEX bff_consumer_ix_idempotency_expires ON bff_consumer_idempotency_keys (expires_at);
CREATE INDEX bff_consumer_ix_idempotency_session ON bff_consumer_idempotency_keys (guest_session_id);
