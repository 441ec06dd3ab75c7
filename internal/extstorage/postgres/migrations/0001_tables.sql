-- The tables of extension storage. Operators query some of them, so their columns, checks and names are stable. Sizes,
-- counters and change numbers let a write decide without counting rows. Text is compared as bytes.

CREATE TABLE ext_storage_records (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	namespace            TEXT        COLLATE "C" NOT NULL,
	key                  TEXT        COLLATE "C" NOT NULL,
	revision             BIGINT      NOT NULL DEFAULT 1,
	value                JSONB       NOT NULL,
	metadata             JSONB       DEFAULT '{}'::jsonb,
	ttl_expires_at       TIMESTAMPTZ,
	created_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	updated_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	value_bytes          INTEGER     NOT NULL, -- size of the canonical text
	metadata_bytes       INTEGER     NOT NULL,
	change_seq           BIGINT      NOT NULL, -- number of the change that wrote the record; its ETag
	PRIMARY KEY (tenant_id, extension_install_id, namespace, key),
	CHECK (revision > 0),
	CHECK (metadata IS NULL OR jsonb_typeof(metadata) = 'object'),
	CHECK (length(namespace) <= 64 AND namespace ~ '^[a-z0-9][a-z0-9-]*$'),
	CHECK (length(key) BETWEEN 1 AND 128 AND key !~ '/')
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

-- Expiring records by key. Lists of a namespace use the primary key, so no second index covers the same columns.
CREATE INDEX ext_storage_expired_idx ON ext_storage_records (tenant_id, extension_install_id, namespace, key)
	WHERE ttl_expires_at IS NOT NULL;
-- Expired records of one or all installs.
CREATE INDEX ext_storage_reclaim_idx ON ext_storage_records (tenant_id, extension_install_id, ttl_expires_at, namespace, key)
	WHERE ttl_expires_at IS NOT NULL;
CREATE INDEX ext_storage_sweep_idx ON ext_storage_records (ttl_expires_at, tenant_id, extension_install_id)
	WHERE ttl_expires_at IS NOT NULL;

CREATE TABLE ext_storage_schemas (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	namespace            TEXT        COLLATE "C" NOT NULL,
	schema_version       INTEGER     NOT NULL,
	schema_document      JSONB       NOT NULL,
	status               TEXT        NOT NULL CHECK (status IN ('active', 'deprecated', 'draft')),
	created_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	updated_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	created_by           UUID,
	PRIMARY KEY (tenant_id, extension_install_id, namespace, schema_version)
);

CREATE UNIQUE INDEX ext_storage_schemas_active_idx ON ext_storage_schemas (tenant_id, extension_install_id, namespace)
	WHERE status = 'active';
CREATE INDEX ext_storage_schemas_status_idx ON ext_storage_schemas (status);

-- An install's row is its write lock. Every write updates it; free space in each page keeps the new row version on
-- the same page. Citus needs the primary key to move a shard online.
CREATE TABLE ext_storage_usage (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	bytes_used           BIGINT      NOT NULL DEFAULT 0 CHECK (bytes_used >= 0),
	keys_count           INTEGER     NOT NULL DEFAULT 0 CHECK (keys_count >= 0),
	namespaces_count     INTEGER     NOT NULL DEFAULT 0 CHECK (namespaces_count >= 0),
	updated_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	change_seq           BIGINT      NOT NULL DEFAULT 0, -- last change
	counted_at           TIMESTAMPTZ NOT NULL DEFAULT 'epoch', -- the counters include records live at this time
	closed_seq           BIGINT, -- change_seq at closing; NULL: open
	schema_floor         INTEGER     NOT NULL DEFAULT 0, -- a new namespace's schema versions start after this
	PRIMARY KEY (tenant_id, extension_install_id),
	-- A write changes change_seq, so it fails if the owner is closed.
	CONSTRAINT ext_storage_usage_closed CHECK (closed_seq IS NULL OR closed_seq = change_seq)
) WITH (fillfactor = 50);

CREATE TABLE ext_storage_namespaces (
	tenant_id            UUID    NOT NULL,
	extension_install_id UUID    NOT NULL,
	namespace            TEXT    COLLATE "C" NOT NULL,
	keys_count           INTEGER NOT NULL DEFAULT 0 CHECK (keys_count >= 0),
	PRIMARY KEY (tenant_id, extension_install_id, namespace)
) WITH (fillfactor = 50);

CREATE TABLE ext_storage_changes (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	seq                  BIGINT      NOT NULL,
	op                   TEXT        NOT NULL,
	namespace            TEXT        COLLATE "C" NOT NULL,
	key                  TEXT        COLLATE "C" NOT NULL,
	revision             BIGINT      NOT NULL,
	at                   TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, seq)
);
CREATE INDEX ext_storage_changes_sweep_idx ON ext_storage_changes (at);

-- Stored answers to idempotent requests.
CREATE TABLE ext_storage_answers (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	once_key             TEXT        COLLATE "C" NOT NULL,
	request              BYTEA       NOT NULL, -- hash
	answer               JSON        NOT NULL, -- items
	at                   TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, once_key)
);
CREATE INDEX ext_storage_answers_sweep_idx ON ext_storage_answers (at);

CREATE TABLE ext_storage_installs (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	tier                 TEXT        NOT NULL,
	overrides            JSONB       NOT NULL DEFAULT '{}'::jsonb,
	override_until       TIMESTAMPTZ,
	namespaces           JSONB, -- restricts tokens; NULL: no limit
	revoked_at           TIMESTAMPTZ,
	created_at           TIMESTAMPTZ NOT NULL,
	updated_at           TIMESTAMPTZ NOT NULL,
	deleting_at          TIMESTAMPTZ, -- deletion started
	deleted_at           TIMESTAMPTZ, -- last row deleted
	kept_until           TIMESTAMPTZ, -- earliest removal of the tombstone
	deletion             JSONB, -- numbers of deleted rows
	tokens_after         TIMESTAMPTZ, -- earlier tokens are refused
	PRIMARY KEY (tenant_id, extension_install_id)
);
CREATE INDEX ext_storage_installs_kept_idx ON ext_storage_installs (kept_until) WHERE kept_until IS NOT NULL;
CREATE INDEX ext_storage_installs_revoked_idx ON ext_storage_installs (tenant_id, extension_install_id) WHERE revoked_at IS NOT NULL;

-- Revoked tokens, until they expire. Tokens for a tenant's services use the nil UUID as install.
CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	token_id             TEXT        COLLATE "C" NOT NULL, -- jti
	expires_at           TIMESTAMPTZ NOT NULL,
	revoked_at           TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
);
CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);

-- Audit events that are not published yet.
CREATE TABLE ext_storage_outbox (
	tenant_id uuid NOT NULL,
	extension_install_id uuid NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
	part smallint NOT NULL GENERATED ALWAYS AS (((ascii(right(tenant_id::text, 1)) & 15) + 9 * (ascii(right(tenant_id::text, 1)) >> 6) + (ascii(right(extension_install_id::text, 1)) & 15) + 9 * (ascii(right(extension_install_id::text, 1)) >> 6)) % 16) STORED,
	PRIMARY KEY (part, tenant_id, extension_install_id, seq)
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE ext_storage_outbox_refused (
	tenant_id uuid NOT NULL,
	extension_install_id uuid NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
	attempts integer NOT NULL,
	reason text NOT NULL,
	refused_at timestamptz NOT NULL,
	next_at timestamptz,
	PRIMARY KEY (tenant_id, extension_install_id, seq)
);

-- A lease for each partition, and one for polling.
CREATE TABLE ext_storage_outbox_relay (
	part smallint PRIMARY KEY,
	holder text NOT NULL,
	held_until timestamptz NOT NULL
);
INSERT INTO ext_storage_outbox_relay SELECT n, '', '-infinity' FROM generate_series(0, 16) n;

-- citus

-- By default Citus would colocate the tables with those of another service.
SELECT create_distributed_table('ext_storage_records', 'tenant_id', colocate_with => 'none');
SELECT create_distributed_table('ext_storage_schemas', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_usage', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_namespaces', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_changes', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_answers', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_installs', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_revoked_tokens', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_outbox', 'tenant_id', colocate_with => 'ext_storage_records');
SELECT create_distributed_table('ext_storage_outbox_refused', 'tenant_id', colocate_with => 'ext_storage_records');
