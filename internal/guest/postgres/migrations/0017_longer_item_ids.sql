-- Item IDs are up to 256 bytes of UTF-8. Stored rows satisfy the new checks, because they have at most 64 ASCII characters.
ALTER TABLE bff_consumer.wishlist_anonymous
	DROP CONSTRAINT wishlist_anonymous_item_id_check,
	ADD CONSTRAINT wishlist_anonymous_item_id_check CHECK (octet_length(item_id) BETWEEN 1 AND 256) NOT VALID;
ALTER TABLE bff_consumer.handoff_replay_log
	DROP CONSTRAINT handoff_replay_log_item_id_check,
	ADD CONSTRAINT handoff_replay_log_item_id_check CHECK (octet_length(item_id) BETWEEN 1 AND 256) NOT VALID;
