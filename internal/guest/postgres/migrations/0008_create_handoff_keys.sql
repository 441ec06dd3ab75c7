-- Keys that sign handoff tokens. Secrets are encrypted and erased when a key retires.
CREATE TABLE bff_consumer.handoff_keys (
	id         text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_-]{1,32}$'),
	secret     bytea NOT NULL,
	state      text NOT NULL CHECK (state IN ('active', 'verify-only', 'retired')),
	not_before timestamptz NOT NULL, -- for tokens: when the key was added
	not_after  timestamptz,          -- for tokens: when the key was last replaced
	retired_at timestamptz,
	CONSTRAINT chk_retired CHECK ((state = 'retired') = (retired_at IS NOT NULL) AND (state = 'retired') = (secret = ''))
);

CREATE UNIQUE INDEX ix_handoff_keys_active ON bff_consumer.handoff_keys (state) WHERE state = 'active';

-- handoff_incarnation identifies the database. It changes after a restore from a backup or a dump and after a failover,
-- which may reopen consumed handoffs. A role that may not call one of the functions gets less protection.
CREATE FUNCTION bff_consumer.handoff_incarnation() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
	cluster text := '';
	timeline text := '';
BEGIN
	BEGIN
		SELECT system_identifier::text INTO cluster FROM pg_control_system();
		timeline := left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
	EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR object_not_in_prerequisite_state THEN
		NULL;
	END;
	RETURN cluster || '/' || timeline || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'bff_consumer.handoff_keys'::regclass::oid;
END $$;

-- The incarnation that the keys belong to. In another incarnation, no handoff is minted or consumed.
CREATE TABLE bff_consumer.handoff_epoch (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch       bigint NOT NULL,
	incarnation text NOT NULL
);

INSERT INTO bff_consumer.handoff_epoch (epoch, incarnation) VALUES (1, bff_consumer.handoff_incarnation());

-- consume_handoff consumes an open handoff and returns it. It reads the clock after it locks the row, so waiting never
-- extends a handoff's lifetime.
CREATE FUNCTION bff_consumer.consume_handoff(in_id text, in_signed_by text, in_by text, in_key text) RETURNS SETOF bff_consumer.handoff_replay_log
LANGUAGE plpgsql AS $$
DECLARE
	at timestamptz;
BEGIN
	PERFORM 1 FROM bff_consumer.handoff_replay_log WHERE id = in_id FOR UPDATE;
	at := clock_timestamp();
	RETURN QUERY UPDATE bff_consumer.handoff_replay_log h
		SET consumed = true, consumed_at = at, consumed_by = in_by, consume_key = in_key
		WHERE h.id = in_id AND NOT h.consumed AND h.expires_at > at AND h.hmac_key_id = in_signed_by
			AND EXISTS (SELECT FROM bff_consumer.handoff_keys k WHERE k.id = h.hmac_key_id AND k.state <> 'retired')
			AND NOT EXISTS (SELECT FROM bff_consumer.tenant_suspended_cache s WHERE s.tenant_id = h.tenant_id AND s.suspended)
			AND bff_consumer.handoff_incarnation() = (SELECT e.incarnation FROM bff_consumer.handoff_epoch e)
		RETURNING h.*;
END $$;
