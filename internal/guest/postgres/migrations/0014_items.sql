-- For an item ID that is not a UUID, item_id is the ID and property_id a UUID derived from it. A handoff contains a stay
-- or a payload.
ALTER TABLE bff_consumer.wishlist_anonymous
	ADD COLUMN item_id text COLLATE "C" CHECK (char_length(item_id) BETWEEN 1 AND 64),
	ADD COLUMN quantity integer CHECK (quantity >= 1);

ALTER TABLE bff_consumer.handoff_replay_log
	ADD COLUMN item_id text COLLATE "C" CHECK (char_length(item_id) BETWEEN 1 AND 64),
	ADD COLUMN payload json, -- signed as text
	ALTER COLUMN check_in DROP NOT NULL,
	ALTER COLUMN check_out DROP NOT NULL,
	ALTER COLUMN adults DROP NOT NULL,
	ALTER COLUMN children DROP NOT NULL,
	ALTER COLUMN rooms DROP NOT NULL,
	ADD CONSTRAINT chk_stay_or_payload CHECK (num_nonnulls(check_in, check_out, adults, children, rooms) = CASE WHEN payload IS NULL THEN 5 ELSE 0 END);
