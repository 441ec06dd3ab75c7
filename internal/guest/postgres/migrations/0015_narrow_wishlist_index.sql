-- A list sorts its session's entries, at most 100. With times and IDs, the index took 118 bytes per entry; without,
-- a session's entries share the key: 16 bytes.
DROP INDEX bff_consumer.ix_wishlist_session;
CREATE INDEX ix_wishlist_session ON bff_consumer.wishlist_anonymous (guest_session_id) WHERE removed_at IS NULL;
