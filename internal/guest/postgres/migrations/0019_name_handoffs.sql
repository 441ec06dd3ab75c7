-- A handoff with a payload holds its name (tenant_id and property_id) in its session until it is voided. listed_at is the
-- time of the mint in microseconds, NULL for handoffs from earlier releases; minted_at is rounded as in the token.
ALTER TABLE bff_consumer.handoff_replay_log
	ADD COLUMN listed_at timestamptz,
	ADD COLUMN voided_at timestamptz,
	ADD CONSTRAINT chk_voided CHECK (voided_at IS NULL OR NOT consumed);

CREATE INDEX ix_handoff_name ON bff_consumer.handoff_replay_log (guest_session_id, property_id)
	WHERE payload IS NOT NULL AND voided_at IS NULL;

-- A voided handoff is not consumed.
CREATE OR REPLACE FUNCTION bff_consumer.consume_handoff(in_id text, in_signed_by text, in_by text, in_key text) RETURNS SETOF bff_consumer.handoff_replay_log
LANGUAGE plpgsql AS $$
DECLARE
	at timestamptz;
BEGIN
	PERFORM 1 FROM bff_consumer.handoff_replay_log WHERE id = in_id FOR UPDATE;
	at := clock_timestamp();
	RETURN QUERY UPDATE bff_consumer.handoff_replay_log h
		SET consumed = true, consumed_at = greatest(at, h.minted_at), consumed_by = in_by, consume_key = in_key
		WHERE h.id = in_id AND NOT h.consumed AND h.voided_at IS NULL AND h.expires_at > at AND h.hmac_key_id = in_signed_by
			AND EXISTS (SELECT FROM bff_consumer.handoff_keys k WHERE k.id = h.hmac_key_id AND k.state <> 'retired')
			AND NOT EXISTS (SELECT FROM bff_consumer.tenant_suspended_cache s WHERE s.tenant_id = h.tenant_id AND s.suspended)
			AND bff_consumer.handoff_incarnation() = (SELECT e.incarnation FROM bff_consumer.handoff_epoch e)
		RETURNING h.*;
END $$;
