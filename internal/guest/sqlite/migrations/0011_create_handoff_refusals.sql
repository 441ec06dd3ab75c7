-- Refused attempts to consume a handoff: one row per handoff and reason.
CREATE TABLE bff_consumer_handoff_refusals (
	handoff_id TEXT NOT NULL CHECK (handoff_id GLOB 'bhd_*'),
	reason     TEXT NOT NULL CHECK (reason <> ''),
	attempts   INTEGER NOT NULL CHECK (attempts > 0),
	first_at   INTEGER NOT NULL,
	last_at    INTEGER NOT NULL CHECK (last_at >= first_at),
	PRIMARY KEY (handoff_id, reason)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_handoff_refusals_last ON bff_consumer_handoff_refusals (last_at);
