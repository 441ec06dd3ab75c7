-- A handoff with a payload holds its name (tenant_id and property_id) in its session until it is voided. listed_at is the
-- time of the mint in microseconds, NULL for handoffs from earlier releases; minted_at is rounded as in the token.
ALTER TABLE bff_consumer_handoff_replay_log ADD COLUMN listed_at INTEGER;
ALTER TABLE bff_consumer_handoff_replay_log ADD COLUMN voided_at INTEGER CHECK (voided_at IS NULL OR consumed = 0);

CREATE INDEX bff_consumer_ix_handoff_name ON bff_consumer_handoff_replay_log (guest_session_id, property_id)
	WHERE payload IS NOT NULL AND voided_at IS NULL;
