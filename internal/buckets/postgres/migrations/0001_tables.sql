-- The tables of RFD 149 and those that they lack. Columns beside those of the RFD come
-- last. Text that is compared or ordered is so as bytes. Text of clients is never a key
-- of a lock or a path by itself. On Citus the owner distributes every table of rows that
-- belong to an account.

DO $$
BEGIN
	CREATE EXTENSION IF NOT EXISTS hstore;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE =
			'buckets need the extension hstore: run CREATE EXTENSION hstore in the database as its owner or a superuser, or GRANT CREATE ON DATABASE to the role';
	WHEN undefined_file OR feature_not_supported THEN
		RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE =
			'buckets need the extension hstore, which the server does not have: install the contrib modules of PostgreSQL there';
END $$;

CREATE TABLE manta_bucket (
	id      uuid NOT NULL,
	name    text COLLATE "C" NOT NULL,
	owner   uuid NOT NULL,
	created timestamptz DEFAULT current_timestamp NOT NULL,
	PRIMARY KEY (owner, name)
);
-- Buckets with a name, of any account.
CREATE INDEX manta_bucket_name_idx ON manta_bucket (name, owner);

CREATE TABLE manta_bucket_object (
	id             uuid NOT NULL,
	name           text COLLATE "C" NOT NULL,
	owner          uuid NOT NULL,
	bucket_id      uuid NOT NULL,
	created        timestamptz DEFAULT current_timestamp NOT NULL,
	modified       timestamptz DEFAULT current_timestamp NOT NULL,
	creator        uuid,
	content_length bigint,
	content_md5    bytea,
	content_type   text,
	headers        hstore,
	roles          uuid[],
	sharks         text[],
	properties     jsonb,
	body           bytea, -- a small body, which is on no storage node
	PRIMARY KEY (owner, bucket_id, name),
	CHECK (octet_length(name) BETWEEN 1 AND 1024)
);
-- Most bodies are compressed already.
ALTER TABLE manta_bucket_object ALTER COLUMN body SET STORAGE EXTERNAL;

-- A primary key, because Citus moves a shard online only with one.
CREATE TABLE manta_bucket_deleted_bucket (
	id         uuid NOT NULL,
	name       text COLLATE "C" NOT NULL,
	owner      uuid NOT NULL,
	created    timestamptz NOT NULL,
	deleted_at timestamptz DEFAULT current_timestamp NOT NULL,
	PRIMARY KEY (owner, id, deleted_at)
);
CREATE INDEX manta_bucket_deleted_bucket_id_idx ON manta_bucket_deleted_bucket (id);
CREATE INDEX manta_bucket_deleted_bucket_deleted_at_idx ON manta_bucket_deleted_bucket (deleted_at);

-- Bodies in rows are gone at once, so the table has no column for them. A worker claims
-- rows for a time. IDs of versions may repeat, so a row has an ID of its own.
CREATE TABLE manta_bucket_deleted_object (
	id             uuid NOT NULL,
	name           text COLLATE "C" NOT NULL,
	owner          uuid NOT NULL,
	bucket_id      uuid NOT NULL,
	created        timestamptz NOT NULL,
	modified       timestamptz NOT NULL,
	creator        uuid,
	content_length bigint,
	content_md5    bytea,
	content_type   text,
	headers        hstore,
	roles          uuid[],
	sharks         text[],
	properties     jsonb,
	deleted_at     timestamptz DEFAULT current_timestamp NOT NULL,
	garbage_id     uuid NOT NULL,
	claim          uuid,
	claim_expires  timestamptz,
	PRIMARY KEY (owner, bucket_id, id, garbage_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX manta_bucket_deleted_object_id_idx ON manta_bucket_deleted_object (id);
CREATE INDEX manta_bucket_deleted_object_deleted_at_idx ON manta_bucket_deleted_object (deleted_at);
CREATE INDEX manta_bucket_deleted_object_claim_idx ON manta_bucket_deleted_object (claim) WHERE claim IS NOT NULL;
-- Finds the garbage that has the parts of an upload.
CREATE INDEX manta_bucket_deleted_object_upload_idx ON manta_bucket_deleted_object (owner, (properties #>> '{s3,upload}'))
	WHERE properties #>> '{s3,upload}' IS NOT NULL;

-- While a hold has not expired, garbage is not claimed. The row without an ID is the lock
-- that holds and claims take.
CREATE TABLE manta_bucket_hold (
	id      text COLLATE "C" PRIMARY KEY,
	expires timestamptz NOT NULL
);
INSERT INTO manta_bucket_hold VALUES ('', '-infinity');

-- Multipart uploads that are neither complete nor aborted.
CREATE TABLE manta_bucket_upload (
	id           uuid NOT NULL, -- later ones are greater
	name         text COLLATE "C" NOT NULL,
	owner        uuid NOT NULL,
	bucket_id    uuid NOT NULL,
	created      timestamptz NOT NULL,
	creator      uuid,
	content_type text,
	headers      hstore,
	roles        uuid[],
	properties   jsonb,
	PRIMARY KEY (owner, bucket_id, name, id)
);
CREATE INDEX manta_bucket_upload_created_idx ON manta_bucket_upload (created);

-- Parts of uploads, and of the objects that uploads have become.
CREATE TABLE manta_bucket_part (
	owner          uuid    NOT NULL,
	upload_id      uuid    NOT NULL,
	number         integer NOT NULL CHECK (number BETWEEN 1 AND 10000),
	bucket_id      uuid    NOT NULL,
	name           text    COLLATE "C" NOT NULL, -- of the object
	id             uuid    NOT NULL, -- of the body
	created        timestamptz NOT NULL,
	content_length bigint  NOT NULL,
	content_md5    bytea   NOT NULL,
	checksum       jsonb,
	sharks         text[],
	start          bigint,           -- offset in the object; NULL before the upload is complete
	body           bytea,
	PRIMARY KEY (owner, upload_id, number)
);
ALTER TABLE manta_bucket_part ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE manta_bucket_settings (
	owner     uuid  NOT NULL,
	bucket_id uuid  NOT NULL,
	settings  jsonb NOT NULL,
	PRIMARY KEY (owner, bucket_id)
);

-- What an account has (bucket_id is the nil UUID) and each of its buckets: the sum of up
-- to 16 slots. A slot with a quota may grow by its spare without a look at the others:
-- what all slots count and their spares are never more than the quota. The slots of a
-- bucket or account with a quota all exist.
CREATE TABLE manta_bucket_usage (
	owner         uuid     NOT NULL,
	bucket_id     uuid     NOT NULL,
	slot          smallint NOT NULL CHECK (slot BETWEEN 0 AND 15),
	objects       bigint   NOT NULL DEFAULT 0, -- may be negative: another slot has counted what this one has lost
	bytes         bigint   NOT NULL DEFAULT 0,
	max_objects   bigint   NOT NULL DEFAULT 0, -- the quota, the same in all slots; 0: no limit
	max_bytes     bigint   NOT NULL DEFAULT 0,
	spare_objects bigint,                      -- NULL: no limit
	spare_bytes   bigint,
	PRIMARY KEY (owner, bucket_id, slot)
) WITH (fillfactor = 40);

CREATE TABLE manta_bucket_account (
	id          uuid   PRIMARY KEY,
	name        text   COLLATE "C" NOT NULL UNIQUE,
	created     timestamptz NOT NULL,
	max_objects bigint NOT NULL, -- a copy of the quota in manta_bucket_usage
	max_bytes   bigint NOT NULL
);

CREATE TABLE manta_bucket_key (
	id      text  COLLATE "C" PRIMARY KEY,
	account uuid  NOT NULL,
	secret  bytea NOT NULL, -- encrypted
	created timestamptz NOT NULL,
	revoked timestamptz
);
CREATE INDEX manta_bucket_key_account_idx ON manta_bucket_key (account, id);

CREATE TABLE manta_bucket_node (
	id    text COLLATE "C" PRIMARY KEY,
	url   text NOT NULL,
	state text NOT NULL,
	added timestamptz NOT NULL
);

-- citus

SELECT create_distributed_table('manta_bucket', 'owner');
SELECT create_distributed_table('manta_bucket_object', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_deleted_bucket', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_deleted_object', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_upload', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_part', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_settings', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_usage', 'owner', colocate_with => 'manta_bucket');
SELECT create_reference_table('manta_bucket_hold');
SELECT create_reference_table('manta_bucket_account');
SELECT create_reference_table('manta_bucket_key');
SELECT create_reference_table('manta_bucket_node');
