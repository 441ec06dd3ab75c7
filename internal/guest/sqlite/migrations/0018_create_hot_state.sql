-- Sessions and searches of hot state in memory, as JSON. WITHOUT ROWID would move most states to their own pages.
CREATE TABLE bff_consumer_hot_state (
	guest_session_id TEXT    NOT NULL CHECK (guest_session_id GLOB 'gms_[0-7]*'),
	id               TEXT    NOT NULL, -- the session's, or a search's (srs_)
	state            BLOB    NOT NULL,
	expires_at       INTEGER NOT NULL,
	PRIMARY KEY (guest_session_id, id)
) STRICT;

CREATE INDEX bff_consumer_ix_hot_state_expires ON bff_consumer_hot_state (expires_at, id);

-- Sessions that were cleared or erased, as hashes, until the process with a copy has read it. answers are the keys of
-- their stored answers.
CREATE TABLE bff_consumer_hot_erased (
	session_hash BLOB    NOT NULL CHECK (length(session_hash) = 32),
	expires_at   INTEGER NOT NULL,
	answers      TEXT    NOT NULL CHECK (json_valid(answers)),
	PRIMARY KEY (session_hash, expires_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_hot_erased_expires ON bff_consumer_hot_erased (expires_at);
