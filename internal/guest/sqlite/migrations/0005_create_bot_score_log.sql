CREATE TABLE bff_consumer_bot_score_log (
	id               TEXT    NOT NULL PRIMARY KEY,
	guest_session_id TEXT,
	fingerprint_hash BLOB    NOT NULL,
	ip_hash          BLOB    NOT NULL,
	user_agent_hash  BLOB    NOT NULL,
	score            REAL    NOT NULL CHECK (score >= 0 AND score <= 1),
	verdict          TEXT    NOT NULL CHECK (verdict IN ('human', 'suspect', 'bot')),
	signals          TEXT    NOT NULL CHECK (json_valid(signals)),
	action_taken     TEXT    NOT NULL CHECK (action_taken IN ('none', 'challenge', 'hard-block')),
	evaluated_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_botscore_evaluated ON bff_consumer_bot_score_log (evaluated_at);
CREATE INDEX bff_consumer_ix_botscore_fingerprint ON bff_consumer_bot_score_log (fingerprint_hash, evaluated_at DESC);
