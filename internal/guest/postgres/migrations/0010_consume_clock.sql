-- If the clock went back after the mint, consumed_at is minted_at, because the table refuses an earlier time.
CREATE OR REPLACE FUNCTION bff_consumer.consume_handoff(in_id text, in_signed_by text, in_by text, in_key text) RETURNS SETOF bff_consumer.handoff_replay_log
LANGUAGE plpgsql AS $$
DECLARE
	at timestamptz;
BEGIN
	PERFORM 1 FROM bff_consumer.handoff_replay_log WHERE id = in_id FOR UPDATE;
	at := clock_timestamp();
	RETURN QUERY UPDATE bff_consumer.handoff_replay_log h
		SET consumed = true, consumed_at = greatest(at, h.minted_at), consumed_by = in_by, consume_key = in_key
		WHERE h.id = in_id AND NOT h.consumed AND h.expires_at > at AND h.hmac_key_id = in_signed_by
			AND EXISTS (SELECT FROM bff_consumer.handoff_keys k WHERE k.id = h.hmac_key_id AND k.state <> 'retired')
			AND NOT EXISTS (SELECT FROM bff_consumer.tenant_suspended_cache s WHERE s.tenant_id = h.tenant_id AND s.suspended)
			AND bff_consumer.handoff_incarnation() = (SELECT e.incarnation FROM bff_consumer.handoff_epoch e)
		RETURNING h.*;
END $$;
