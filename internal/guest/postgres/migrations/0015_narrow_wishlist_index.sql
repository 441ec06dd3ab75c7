-- A list sorts the entries of its session, at most 100. With their times and IDs, an entry
-- took 118 bytes in the index; without, sessions share entries: 16 bytes.
DROP INDEX bff_consumer.ix_wishlist_session;
CREATE INDEX ix_wishlist_session ON bff_consumer.wishlist_anonymous (guest_session_id) WHERE removed_at IS NULL;
