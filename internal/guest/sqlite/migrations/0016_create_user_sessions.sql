-- Sessions of site users. list_id is the session that stores the user's list, and stays after the session has ended.
CREATE TABLE bff_consumer_user_sessions (
	session_id TEXT    NOT NULL PRIMARY KEY CHECK (length(session_id) = 30 AND session_id GLOB 'gus_[0-7]*'),
	user_id    TEXT    NOT NULL CHECK (length(user_id) BETWEEN 1 AND 128),
	list_id    TEXT    NOT NULL CHECK (length(list_id) = 30 AND list_id GLOB 'gms_[0-7]*'),
	linked_at  INTEGER NOT NULL,
	seen_at    INTEGER NOT NULL,
	ended_at   INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_user_sessions_user ON bff_consumer_user_sessions (user_id, session_id);
CREATE INDEX bff_consumer_ix_user_sessions_list ON bff_consumer_user_sessions (list_id);
CREATE INDEX bff_consumer_ix_user_sessions_seen ON bff_consumer_user_sessions (seen_at);
