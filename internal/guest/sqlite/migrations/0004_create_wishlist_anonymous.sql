CREATE TABLE bff_consumer_wishlist_anonymous (
	id               TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 30 AND id GLOB 'wsh_[0-7]*'),
	guest_session_id TEXT    NOT NULL CHECK (length(guest_session_id) = 30 AND guest_session_id GLOB 'gms_[0-7]*'),
	tenant_id        TEXT    NOT NULL,
	property_id      TEXT    NOT NULL,
	source           TEXT    NOT NULL CHECK (source IN ('detail', 'list', 'map', 'recently-viewed')),
	note             TEXT    CHECK (length(note) <= 280),
	added_at         INTEGER NOT NULL,
	removed_at       INTEGER,
	UNIQUE (guest_session_id, property_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_wishlist_session ON bff_consumer_wishlist_anonymous (guest_session_id, added_at DESC, id)
	WHERE removed_at IS NULL;
CREATE INDEX bff_consumer_ix_wishlist_tenant_property ON bff_consumer_wishlist_anonymous (tenant_id, property_id);
CREATE INDEX bff_consumer_ix_wishlist_removed ON bff_consumer_wishlist_anonymous (removed_at) WHERE removed_at IS NOT NULL;
