CREATE TABLE bff_consumer_handoff_replay_log (
	id               TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 30 AND id GLOB 'bhd_[0-7]*'),
	guest_session_id TEXT    NOT NULL CHECK (length(guest_session_id) = 30 AND guest_session_id GLOB 'gms_[0-7]*'),
	tenant_id        TEXT    NOT NULL,
	property_id      TEXT    NOT NULL,
	check_in         TEXT    NOT NULL, -- YYYY-MM-DD
	check_out        TEXT    NOT NULL,
	adults           INTEGER NOT NULL CHECK (adults >= 1),
	children         INTEGER NOT NULL CHECK (children >= 0),
	rooms            INTEGER NOT NULL CHECK (rooms >= 1),
	currency         TEXT    NOT NULL CHECK (length(currency) = 3),
	locale           TEXT    NOT NULL,
	source_campaign  TEXT    CHECK (json_valid(source_campaign)),
	hmac_key_id      TEXT    NOT NULL,
	fingerprint_hash BLOB    NOT NULL,
	ip_hash          BLOB    NOT NULL,
	minted_at        INTEGER NOT NULL,
	expires_at       INTEGER NOT NULL,
	consumed         INTEGER NOT NULL DEFAULT 0 CHECK (consumed IN (0, 1)),
	consumed_at      INTEGER,
	consumed_by      TEXT,
	consume_key      TEXT, -- consumer's idempotency key
	erased_at        INTEGER, -- set when the guest clears the session; only the replay guard is left
	CHECK (check_out > check_in),
	CHECK (expires_at > minted_at AND expires_at - minted_at <= 1800000000),
	CHECK (consumed = (consumed_at IS NOT NULL) AND consumed = (consumed_by IS NOT NULL) AND consumed = (consume_key IS NOT NULL)),
	CHECK (consumed_at >= minted_at AND consumed_at < expires_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_handoff_consumed_at ON bff_consumer_handoff_replay_log (consumed_at) WHERE consumed = 1;
CREATE INDEX bff_consumer_ix_handoff_expires_at ON bff_consumer_handoff_replay_log (expires_at) WHERE consumed = 0;
CREATE INDEX bff_consumer_ix_handoff_session ON bff_consumer_handoff_replay_log (guest_session_id, minted_at DESC);
CREATE INDEX bff_consumer_ix_handoff_minted ON bff_consumer_handoff_replay_log (minted_at);
