CREATE TABLE bff_consumer.handoff_replay_log (
	id               text COLLATE "C" PRIMARY KEY CHECK (id ~ '^bhd_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	guest_session_id text COLLATE "C" NOT NULL CHECK (guest_session_id ~ '^gms_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	tenant_id        uuid NOT NULL,
	property_id      uuid NOT NULL,
	check_in         date NOT NULL,
	check_out        date NOT NULL,
	adults           smallint NOT NULL CHECK (adults >= 1),
	children         smallint NOT NULL CHECK (children >= 0),
	rooms            smallint NOT NULL CHECK (rooms >= 1),
	currency         char(3) NOT NULL,
	locale           text NOT NULL,
	source_campaign  jsonb,
	hmac_key_id      text NOT NULL,
	fingerprint_hash bytea NOT NULL,
	ip_hash          bytea NOT NULL,
	minted_at        timestamptz NOT NULL,
	expires_at       timestamptz NOT NULL,
	consumed         boolean NOT NULL DEFAULT false,
	consumed_at      timestamptz,
	consumed_by      text,
	consume_key      text, -- consumer's idempotency key
	erased_at        timestamptz, -- set when the guest clears the session; only the replay guard is left
	CONSTRAINT chk_dates CHECK (check_out > check_in),
	CONSTRAINT chk_ttl CHECK (expires_at > minted_at AND expires_at - minted_at <= interval '30 minutes'),
	CONSTRAINT chk_consumed CHECK (consumed = (consumed_at IS NOT NULL) AND consumed = (consumed_by IS NOT NULL) AND consumed = (consume_key IS NOT NULL)),
	CONSTRAINT chk_consumed_in_time CHECK (consumed_at >= minted_at AND consumed_at < expires_at)
);

CREATE INDEX ix_handoff_consumed_at ON bff_consumer.handoff_replay_log (consumed_at) WHERE consumed = true;
CREATE INDEX ix_handoff_expires_at ON bff_consumer.handoff_replay_log (expires_at) WHERE consumed = false;
CREATE INDEX ix_handoff_session ON bff_consumer.handoff_replay_log (guest_session_id, minted_at DESC);
CREATE INDEX ix_handoff_minted ON bff_consumer.handoff_replay_log (minted_at);
