-- Sessions of site users. list_id is the session that stores the user's list, and stays after the session has ended.
CREATE TABLE bff_consumer.user_sessions (
	session_id text COLLATE "C" PRIMARY KEY CHECK (session_id ~ '^gus_[0-7][0-9A-Z]{25}$'),
	user_id    text COLLATE "C" NOT NULL CHECK (length(user_id) BETWEEN 1 AND 128),
	list_id    text COLLATE "C" NOT NULL CHECK (list_id ~ '^gms_[0-7][0-9A-Z]{25}$'),
	linked_at  timestamptz NOT NULL,
	seen_at    timestamptz NOT NULL,
	ended_at   timestamptz
);

CREATE INDEX ix_user_sessions_user ON bff_consumer.user_sessions (user_id, session_id);
CREATE INDEX ix_user_sessions_list ON bff_consumer.user_sessions (list_id);
CREATE INDEX ix_user_sessions_seen ON bff_consumer.user_sessions (seen_at);
