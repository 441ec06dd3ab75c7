-- The tables of extension storage. Tables that operators query have the columns, checks and
-- names that they know. The other columns and tables let a write decide without counting
-- rows: sizes, counters, the sequence of changes. Text is compared as bytes.

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
	value_bytes          INTEGER     NOT NULL, -- of the canonical text
	metadata_bytes       INTEGER     NOT NULL,
	change_seq           BIGINT      NOT NULL, -- of the change that wrote the record: its ETag
	PRIMARY KEY (tenant_id, extension_install_id, namespace, key),
	CHECK (revision > 0),
	CHECK (metadata IS NULL OR jsonb_typeof(metadata) = 'object'),
	CHECK (length(namespace) <= 64 AND namespace ~ '^[a-z0-9][a-z0-9-]*$'),
	CHECK (length(key) BETWEEN 1 AND 128 AND key !~ '/')
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

-- Records that can expire, by key. Lists of a namespace use the primary key, so there is no
-- second index of the same columns.
CREATE INDEX ext_storage_expired_idx ON ext_storage_records (tenant_id, extension_install_id, namespace, key)
	WHERE ttl_expires_at IS NOT NULL;
-- Expired records of one install, and of all.
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

-- The row of an install is the lock of its writes. Every write updates it; free space in each
-- page lets PostgreSQL write the new version next to the old one. The primary key lets Citus
-- move a shard online.
CREATE TABLE ext_storage_usage (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	bytes_used           BIGINT      NOT NULL DEFAULT 0 CHECK (bytes_used >= 0),
	keys_count           INTEGER     NOT NULL DEFAULT 0 CHECK (keys_count >= 0),
	namespaces_count     INTEGER     NOT NULL DEFAULT 0 CHECK (namespaces_count >= 0),
	updated_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
	change_seq           BIGINT      NOT NULL DEFAULT 0, -- of the last change
	counted_at           TIMESTAMPTZ NOT NULL DEFAULT 'epoch', -- the counters are of the records live then
	closed_seq           BIGINT, -- change_seq of a closed owner; NULL: it is not closed
	schema_floor         INTEGER     NOT NULL DEFAULT 0, -- the versions of schemas of a new namespace follow this one
	PRIMARY KEY (tenant_id, extension_install_id),
	-- A write changes change_seq, so it fails on a closed owner.
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

-- Answers to requests that may be repeated.
CREATE TABLE ext_storage_answers (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	once_key             TEXT        COLLATE "C" NOT NULL,
	request              BYTEA       NOT NULL, -- its hash
	answer               JSON        NOT NULL, -- the items of the answer
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
	namespaces           JSONB, -- limits what tokens allow; NULL: no limit
	revoked_at           TIMESTAMPTZ,
	created_at           TIMESTAMPTZ NOT NULL,
	updated_at           TIMESTAMPTZ NOT NULL,
	deleting_at          TIMESTAMPTZ, -- when its deletion began
	deleted_at           TIMESTAMPTZ, -- when its last row was deleted
	kept_until           TIMESTAMPTZ, -- when the tombstone may be deleted
	deletion             JSONB, -- how many rows were deleted
	tokens_after         TIMESTAMPTZ, -- tokens issued before are refused
	PRIMARY KEY (tenant_id, extension_install_id)
);
CREATE INDEX ext_storage_installs_kept_idx ON ext_storage_installs (kept_until) WHERE kept_until IS NOT NULL;
CREATE INDEX ext_storage_installs_revoked_idx ON ext_storage_installs (tenant_id, extension_install_id) WHERE revoked_at IS NOT NULL;

-- Tokens that an operator has revoked, until they expire. The install of tokens of a
-- tenant's services is the nil UUID.
CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	token_id             TEXT        COLLATE "C" NOT NULL, -- its jti
	expires_at           TIMESTAMPTZ NOT NULL,
	revoked_at           TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
);
CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);

-- Events for the audit, until the relay has published them.
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

-- Events that the sink has refused. Until next_at they and their successors wait;
-- where it is NULL the event was set aside, and is here only.
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

-- A lease for each partition, and that of the process that polls.
CREATE TABLE ext_storage_outbox_relay (
	part smallint PRIMARY KEY,
	holder text NOT NULL,
	held_until timestamptz NOT NULL
);
INSERT INTO ext_storage_outbox_relay SELECT n, '', '-infinity' FROM generate_series(0, 16) n;

-- citus

-- By default Citus would colocate the tables with those of another service.
-- formerly 45bb257f918a2ada0e487ed2bf8868b1b4ecc61ff47ea8bb6ac115d9e54579c5
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
