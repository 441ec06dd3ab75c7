-- Keys that sign handoff tokens. Secrets are encrypted and erased when a key retires.
CREATE TABLE bff_consumer_handoff_keys (
	id         TEXT    NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 32),
	secret     BLOB    NOT NULL,
	state      TEXT    NOT NULL CHECK (state IN ('active', 'verify-only', 'retired')),
	not_before INTEGER NOT NULL, -- for tokens: when the key was added
	not_after  INTEGER,          -- for tokens: when the key was last replaced
	retired_at INTEGER,
	CHECK ((state = 'retired') = (retired_at IS NOT NULL) AND (state = 'retired') = (length(secret) = 0))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX bff_consumer_ix_handoff_keys_active ON bff_consumer_handoff_keys (state) WHERE state = 'active';

-- The incarnation that the keys belong to. Each server start creates a new incarnation and also stores it outside this
-- file: if the two differ, the file was restored.
CREATE TABLE bff_consumer_handoff_epoch (
	one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	epoch       INTEGER NOT NULL,
	incarnation TEXT    NOT NULL
) STRICT;

INSERT INTO bff_consumer_handoff_epoch (one, epoch, incarnation) VALUES (1, 1, '');
