-- The tables of extension storage. Times are milliseconds since 1970-01-01 UTC; NULL means
-- never. UUIDs are in lower case. Text is compared by its bytes in UTF-8.

-- The value is the last column: SQLite reads through a large value to reach the columns
-- after it.
CREATE TABLE ext_storage_records (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	namespace            TEXT    NOT NULL,
	key                  TEXT    NOT NULL,
	revision             INTEGER NOT NULL,
	change_seq           INTEGER NOT NULL, -- of the change that wrote the record: its ETag
	created_at           INTEGER NOT NULL,
	updated_at           INTEGER NOT NULL,
	ttl_expires_at       INTEGER,
	value_bytes          INTEGER NOT NULL, -- of the canonical text
	metadata_bytes       INTEGER NOT NULL,
	metadata             TEXT    NOT NULL, -- canonical JSON
	value                TEXT    NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, namespace, key),
	CHECK (revision > 0),
	CHECK (json_type(metadata) = 'object'),
	CHECK (length(namespace) <= 64 AND namespace GLOB '[a-z0-9]*' AND namespace NOT GLOB '*[^-a-z0-9]*'),
	CHECK (length(key) BETWEEN 1 AND 128 AND instr(key, '/') = 0)
);

-- Expired records of one install, and of all.
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

-- The counters of an install are of the records that are live at counted_at.
CREATE TABLE ext_storage_usage (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	bytes_used           INTEGER NOT NULL CHECK (bytes_used >= 0),
	keys_count           INTEGER NOT NULL CHECK (keys_count >= 0),
	namespaces_count     INTEGER NOT NULL CHECK (namespaces_count >= 0),
	updated_at           INTEGER NOT NULL,
	change_seq           INTEGER NOT NULL, -- of the last change
	counted_at           INTEGER NOT NULL DEFAULT 0,
	-- change_seq of a closed owner; NULL: it is not closed. A write changes change_seq, so it
	-- fails on a closed owner.
	closed_seq           INTEGER CHECK (closed_seq IS NULL OR closed_seq = change_seq),
	schema_floor         INTEGER NOT NULL DEFAULT 0, -- the versions of schemas of a new namespace follow this one
	PRIMARY KEY (tenant_id, extension_install_id)
) WITHOUT ROWID;

-- Namespaces that have a key, counted as in ext_storage_usage.
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

-- Answers to requests that may be repeated.
CREATE TABLE ext_storage_answers (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	once_key             TEXT    NOT NULL,
	request              BLOB    NOT NULL, -- its hash
	answer               TEXT    NOT NULL, -- the items of the answer, as JSON
	at                   INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, once_key)
) WITHOUT ROWID;

CREATE INDEX ext_storage_answers_sweep_idx ON ext_storage_answers (at);

CREATE TABLE ext_storage_installs (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	tier                 TEXT    NOT NULL,
	overrides            TEXT    NOT NULL, -- {"bytes", "namespaces", "keys"}; 0: that of the tier
	override_until       INTEGER,
	namespaces           TEXT, -- limits what tokens allow, as {"settings": "rw"}; NULL: no limit
	revoked_at           INTEGER,
	created_at           INTEGER NOT NULL,
	updated_at           INTEGER NOT NULL,
	deleting_at          INTEGER, -- when its deletion began
	deleted_at           INTEGER, -- when its last row was deleted
	kept_until           INTEGER, -- when the tombstone may be deleted
	deletion             TEXT, -- how many rows were deleted, as JSON
	tokens_after         INTEGER, -- tokens issued before are refused
	PRIMARY KEY (tenant_id, extension_install_id)
) WITHOUT ROWID;

CREATE INDEX ext_storage_installs_kept_idx ON ext_storage_installs (kept_until) WHERE kept_until IS NOT NULL;
CREATE INDEX ext_storage_installs_revoked_idx ON ext_storage_installs (tenant_id, extension_install_id) WHERE revoked_at IS NOT NULL;

-- Tokens that an operator has revoked, until they expire. The install of tokens of a
-- tenant's services is the nil UUID.
CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	token_id             TEXT    NOT NULL, -- its jti
	expires_at           INTEGER NOT NULL,
	revoked_at           INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
) WITHOUT ROWID;

CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);

-- Events of the audit, for the relay of package outbox.
CREATE TABLE ext_storage_outbox (
	tenant_id TEXT NOT NULL,
	extension_install_id TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, as all times here
	part INTEGER NOT NULL, -- partition
	position INTEGER PRIMARY KEY -- ascending in the order of commits
);

-- Events that the sink has refused. Until next_at they and their successors wait;
-- where it is NULL the event was set aside, and is here only.
CREATE TABLE ext_storage_outbox_refused (
	tenant_id TEXT NOT NULL,
	extension_install_id TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, as all times here
	attempts INTEGER NOT NULL,
	reason TEXT NOT NULL,
	refused_at INTEGER NOT NULL,
	next_at INTEGER,
	PRIMARY KEY (tenant_id, extension_install_id, seq)
) WITHOUT ROWID;

-- A lease for each partition, and that of the process that polls.
CREATE TABLE ext_storage_outbox_relay (
	part INTEGER PRIMARY KEY,
	holder TEXT NOT NULL,
	held_until INTEGER NOT NULL
);
