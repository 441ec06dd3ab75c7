CREATE TABLE bff_consumer.bot_score_log (
	id               text COLLATE "C" PRIMARY KEY,
	guest_session_id text COLLATE "C",
	fingerprint_hash bytea NOT NULL,
	ip_hash          bytea NOT NULL,
	user_agent_hash  bytea NOT NULL,
	score            real NOT NULL CHECK (score >= 0 AND score <= 1),
	verdict          text NOT NULL CHECK (verdict IN ('human', 'suspect', 'bot')),
	signals          jsonb NOT NULL,
	action_taken     text NOT NULL CHECK (action_taken IN ('none', 'challenge', 'hard-block')),
	evaluated_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX ix_botscore_evaluated ON bff_consumer.bot_score_log (evaluated_at);
CREATE INDEX ix_botscore_fingerprint ON bff_consumer.bot_score_log (fingerprint_hash, evaluated_at DESC);
