-- The tables of extension storage. Times are milliseconds since 1970-01-01 UTC; NULL means never. UUIDs are lower case.
-- Text is compared as UTF-8 bytes.

-- The value is the last column: SQLite reads through it to reach later columns.
CREATE TABLE ext_storage_records (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	namespace            TEXT    NOT NULL,
	key                  TEXT    NOT NULL,
	revision             INTEGER NOT NULL,
	change_seq           INTEGER NOT NULL, -- number of the change that wrote the record; its ETag
	created_at           INTEGER NOT NULL,
	updated_at           INTEGER NOT NULL,
	ttl_expires_at       INTEGER,
	value_bytes          INTEGER NOT NULL, -- size of the canonical text
	metadata_bytes       INTEGER NOT NULL,
	metadata             TEXT    NOT NULL, -- canonical JSON
	value                TEXT    NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, namespace, key),
	CHECK (revision > 0),
	CHECK (json_type(metadata) = 'object'),
	CHECK (length(namespace) <= 64 AND namespace GLOB '[a-z0-9]*' AND namespace NOT GLOB '*[^-a-z0-9]*'),
	CHECK (length(key) BETWEEN 1 AND 128 AND instr(key, '/') = 0)
);

-- Expired records of one or all installs.
CREATE INDEX ext_storage_reclaim_idx ON ext_storage_records (tenant_id, extension_install_id, ttl_expires_at)
	WHERE ttl_expires_at IS NOT NULL;
CREATE INDEX ext_storage_sweep_idx ON ext_storage_records (ttl_expires_at, tenant_id, extension_install_id)
	WHERE ttl_expires_at IS NOT NULL;

CREATE TABLE ext_storage_schemas (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	namespace            TEXT    NOT NULL,
	schema_version       INTEGER NOT NULL,
	status               TEXT    NOT NULL CHECK (status IN ('active', 'deprecated', 'draft')),
	created_at           INTEGER NOT NULL,
	updated_at           INTEGER NOT NULL,
	created_by           TEXT,
	schema_document      TEXT    NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, namespace, schema_version)
);

CREATE UNIQUE INDEX ext_storage_schemas_active_idx ON ext_storage_schemas (tenant_id, extension_install_id, namespace)
	WHERE status = 'active';
CREATE INDEX ext_storage_schemas_status_idx ON ext_storage_schemas (status);

-- An install's counters include records live at counted_at.
CREATE TABLE ext_storage_usage (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	bytes_used           INTEGER NOT NULL CHECK (bytes_used >= 0),
	keys_count           INTEGER NOT NULL CHECK (keys_count >= 0),
	namespaces_count     INTEGER NOT NULL CHECK (namespaces_count >= 0),
	updated_at           INTEGER NOT NULL,
	change_seq           INTEGER NOT NULL, -- last change
	counted_at           INTEGER NOT NULL DEFAULT 0,
	-- change_seq at closing; NULL: open. A write changes change_seq, so it fails if the owner is closed.
	closed_seq           INTEGER CHECK (closed_seq IS NULL OR closed_seq = change_seq),
	schema_floor         INTEGER NOT NULL DEFAULT 0, -- a new namespace's schema versions start after this
	PRIMARY KEY (tenant_id, extension_install_id)
) WITHOUT ROWID;

-- Namespaces with keys, counted like ext_storage_usage.
CREATE TABLE ext_storage_namespaces (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	namespace            TEXT    NOT NULL,
	keys_count           INTEGER NOT NULL CHECK (keys_count > 0),
	PRIMARY KEY (tenant_id, extension_install_id, namespace)
) WITHOUT ROWID;

CREATE TABLE ext_storage_changes (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	seq                  INTEGER NOT NULL,
	op                   TEXT    NOT NULL,
	namespace            TEXT    NOT NULL,
	key                  TEXT    NOT NULL,
	revision             INTEGER NOT NULL,
	at                   INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, seq)
) WITHOUT ROWID;

CREATE INDEX ext_storage_changes_sweep_idx ON ext_storage_changes (at);

-- Stored answers to idempotent requests.
CREATE TABLE ext_storage_answers (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	once_key             TEXT    NOT NULL,
	request              BLOB    NOT NULL, -- hash
	answer               TEXT    NOT NULL, -- items, as JSON
	at                   INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, once_key)
) WITHOUT ROWID;

CREATE INDEX ext_storage_answers_sweep_idx ON ext_storage_answers (at);

CREATE TABLE ext_storage_installs (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	tier                 TEXT    NOT NULL,
	overrides            TEXT    NOT NULL, -- {"bytes", "namespaces", "keys"}; 0: the tier's quota
	override_until       INTEGER,
	namespaces           TEXT, -- restricts tokens, as {"settings": "rw"}; NULL: no limit
	revoked_at           INTEGER,
	created_at           INTEGER NOT NULL,
	updated_at           INTEGER NOT NULL,
	deleting_at          INTEGER, -- deletion started
	deleted_at           INTEGER, -- last row deleted
	kept_until           INTEGER, -- earliest removal of the tombstone
	deletion             TEXT, -- numbers of deleted rows, as JSON
	tokens_after         INTEGER, -- earlier tokens are refused
	PRIMARY KEY (tenant_id, extension_install_id)
) WITHOUT ROWID;

CREATE INDEX ext_storage_installs_kept_idx ON ext_storage_installs (kept_until) WHERE kept_until IS NOT NULL;
CREATE INDEX ext_storage_installs_revoked_idx ON ext_storage_installs (tenant_id, extension_install_id) WHERE revoked_at IS NOT NULL;

-- Revoked tokens, until they expire. Tokens for a tenant's services use the nil UUID as install.
CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	token_id             TEXT    NOT NULL, -- jti
	expires_at           INTEGER NOT NULL,
	revoked_at           INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
) WITHOUT ROWID;

CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);

-- Audit events that are not published yet.
CREATE TABLE ext_storage_outbox (
	tenant_id TEXT NOT NULL,
	extension_install_id TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, like all times here
	part INTEGER NOT NULL, -- partition
	position INTEGER PRIMARY KEY -- ascending in commit order
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE ext_storage_outbox_refused (
	tenant_id TEXT NOT NULL,
	extension_install_id TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, like all times here
	attempts INTEGER NOT NULL,
	reason TEXT NOT NULL,
	refused_at INTEGER NOT NULL,
	next_at INTEGER,
	PRIMARY KEY (tenant_id, extension_install_id, seq)
) WITHOUT ROWID;

-- A lease for each partition, and one for polling.
CREATE TABLE ext_storage_outbox_relay (
	part INTEGER PRIMARY KEY,
	holder TEXT NOT NULL,
	held_until INTEGER NOT NULL
);
