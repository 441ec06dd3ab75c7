-- The keys that sign handoff tokens. Secrets are encrypted, and erased when a key retires.
CREATE TABLE bff_consumer_handoff_keys (
	id         TEXT    NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 32),
	secret     BLOB    NOT NULL,
	state      TEXT    NOT NULL CHECK (state IN ('active', 'verify-only', 'retired')),
	not_before INTEGER NOT NULL, -- of tokens: when the key was added
	not_after  INTEGER,          -- of tokens: when the key was last replaced
	retired_at INTEGER,
	CHECK ((state = 'retired') = (retired_at IS NOT NULL) AND (state = 'retired') = (length(secret) = 0))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX bff_consumer_ix_handoff_keys_active ON bff_consumer_handoff_keys (state) WHERE state = 'active';

-- The incarnation of which the keys are. Each start of a server makes a new one, and keeps
-- it outside of the file, too: if they differ, the file was restored.
CREATE TABLE bff_consumer_handoff_epoch (
	one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	epoch       INTEGER NOT NULL,
	incarnation TEXT    NOT NULL
) STRICT;

INSERT INTO bff_consumer_handoff_epoch (one, epoch, incarnation) VALUES (1, 1, '');
