CREATE TABLE bff_consumer.wishlist_anonymous (
	id               text COLLATE "C" PRIMARY KEY CHECK (id ~ '^wsh_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	guest_session_id text COLLATE "C" NOT NULL CHECK (guest_session_id ~ '^gms_[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
	tenant_id        uuid NOT NULL,
	property_id      uuid NOT NULL,
	source           text NOT NULL CHECK (source IN ('detail', 'list', 'map', 'recently-viewed')),
	note             text CHECK (char_length(note) <= 280),
	added_at         timestamptz NOT NULL DEFAULT now(),
	removed_at       timestamptz,
	CONSTRAINT uq_wishlist_session_property UNIQUE (guest_session_id, property_id)
);

CREATE INDEX ix_wishlist_session ON bff_consumer.wishlist_anonymous (guest_session_id, added_at DESC, id)
	WHERE removed_at IS NULL;
CREATE INDEX ix_wishlist_tenant_property ON bff_consumer.wishlist_anonymous (tenant_id, property_id);
CREATE INDEX ix_wishlist_removed ON bff_consumer.wishlist_anonymous (removed_at) WHERE removed_at IS NOT NULL;
