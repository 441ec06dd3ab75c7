-- Item IDs are up to 256 bytes of UTF-8. SQLite changes a check only with a new table.
CREATE TABLE bff_consumer_wishlist_anonymous_new (
	id               TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 30 AND id GLOB 'wsh_[0-7]*'),
	guest_session_id TEXT    NOT NULL CHECK (length(guest_session_id) = 30 AND guest_session_id GLOB 'gms_[0-7]*'),
	tenant_id        TEXT    NOT NULL,
	property_id      TEXT    NOT NULL,
	source           TEXT    NOT NULL CHECK (source IN ('detail', 'list', 'map', 'recently-viewed')),
	note             TEXT    CHECK (length(note) <= 280),
	added_at         INTEGER NOT NULL,
	removed_at       INTEGER,
	item_id          TEXT    CHECK (length(CAST(item_id AS BLOB)) BETWEEN 1 AND 256),
	quantity         INTEGER CHECK (quantity >= 1),
	UNIQUE (guest_session_id, property_id)
) STRICT, WITHOUT ROWID;

INSERT INTO bff_consumer_wishlist_anonymous_new (
	id, guest_session_id, tenant_id, property_id, source, note, added_at, removed_at, item_id, quantity)
SELECT
	id, guest_session_id, tenant_id, property_id, source, note, added_at, removed_at, item_id, quantity
FROM bff_consumer_wishlist_anonymous;
DROP TABLE bff_consumer_wishlist_anonymous;
ALTER TABLE bff_consumer_wishlist_anonymous_new RENAME TO bff_consumer_wishlist_anonymous;

CREATE INDEX bff_consumer_ix_wishlist_session ON bff_consumer_wishlist_anonymous (guest_session_id, added_at DESC, id)
	WHERE removed_at IS NULL;
CREATE INDEX bff_consumer_ix_wishlist_tenant_property ON bff_consumer_wishlist_anonymous (tenant_id, property_id);
CREATE INDEX bff_consumer_ix_wishlist_removed ON bff_consumer_wishlist_anonymous (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE bff_consumer_handoff_replay_log_new (
	id               TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 30 AND id GLOB 'bhd_[0-7]*'),
	guest_session_id TEXT    NOT NULL CHECK (length(guest_session_id) = 30 AND guest_session_id GLOB 'gms_[0-7]*'),
	tenant_id        TEXT    NOT NULL,
	property_id      TEXT    NOT NULL,
	check_in         TEXT, -- YYYY-MM-DD
	check_out        TEXT,
	adults           INTEGER CHECK (adults >= 1),
	children         INTEGER CHECK (children >= 0),
	rooms            INTEGER CHECK (rooms >= 1),
	currency         TEXT    NOT NULL CHECK (length(currency) = 3),
	locale           TEXT    NOT NULL,
	source_campaign  TEXT    CHECK (json_valid(source_campaign)),
	hmac_key_id      TEXT    NOT NULL,
	fingerprint_hash BLOB    NOT NULL,
	ip_hash          BLOB    NOT NULL,
	minted_at        INTEGER NOT NULL,
	expires_at       INTEGER NOT NULL,
	consumed         INTEGER NOT NULL DEFAULT 0 CHECK (consumed IN (0, 1)),
	consumed_at      INTEGER,
	consumed_by      TEXT,
	consume_key      TEXT, -- consumer's idempotency key
	erased_at        INTEGER, -- set when the guest clears the session; only the replay guard is left
	item_id          TEXT    CHECK (length(CAST(item_id AS BLOB)) BETWEEN 1 AND 256),
	payload          TEXT    CHECK (json_valid(payload)),
	CHECK (check_out > check_in),
	CHECK (expires_at > minted_at AND expires_at - minted_at <= 1800000000),
	CHECK (consumed = (consumed_at IS NOT NULL) AND consumed = (consumed_by IS NOT NULL) AND consumed = (consume_key IS NOT NULL)),
	CHECK (consumed_at >= minted_at AND consumed_at < expires_at),
	CHECK ((payload IS NULL) = (check_in IS NOT NULL) AND (payload IS NULL) = (check_out IS NOT NULL) AND (payload IS NULL) = (adults IS NOT NULL)
		AND (payload IS NULL) = (children IS NOT NULL) AND (payload IS NULL) = (rooms IS NOT NULL))
) STRICT, WITHOUT ROWID;

INSERT INTO bff_consumer_handoff_replay_log_new (
	id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, source_campaign,
	hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, consumed, consumed_at, consumed_by, consume_key, erased_at,
	item_id, payload)
SELECT
	id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, source_campaign,
	hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, consumed, consumed_at, consumed_by, consume_key, erased_at,
	item_id, payload
FROM bff_consumer_handoff_replay_log;
DROP TABLE bff_consumer_handoff_replay_log;
ALTER TABLE bff_consumer_handoff_replay_log_new RENAME TO bff_consumer_handoff_replay_log;

CREATE INDEX bff_consumer_ix_handoff_consumed_at ON bff_consumer_handoff_replay_log (consumed_at) WHERE consumed = 1;
CREATE INDEX bff_consumer_ix_handoff_expires_at ON bff_consumer_handoff_replay_log (expires_at) WHERE consumed = 0;
CREATE INDEX bff_consumer_ix_handoff_session ON bff_consumer_handoff_replay_log (guest_session_id, minted_at DESC);
CREATE INDEX bff_consumer_ix_handoff_minted ON bff_consumer_handoff_replay_log (minted_at);
