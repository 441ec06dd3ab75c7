-- The tables of RFD 149 with SQLite types, and additional tables. Times are microseconds since 1970-01-01 UTC. UUIDs are
-- lower case. Text is compared and ordered as UTF-8 bytes. headers and properties are JSON objects, roles and
-- sharks JSON arrays.

CREATE TABLE manta_bucket (
	id      TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	owner   TEXT    NOT NULL,
	created INTEGER NOT NULL,
	PRIMARY KEY (owner, name)
);

-- Finds buckets by name in all accounts.
CREATE INDEX manta_bucket_name_idx ON manta_bucket (name, owner);

-- The body is the last column: SQLite reads through it to reach later columns.
CREATE TABLE manta_bucket_object (
	id             TEXT    NOT NULL,
	name           TEXT    NOT NULL,
	owner          TEXT    NOT NULL,
	bucket_id      TEXT    NOT NULL,
	created        INTEGER NOT NULL,
	modified       INTEGER NOT NULL,
	creator        TEXT,
	content_length INTEGER,
	content_md5    BLOB,
	content_type   TEXT,
	headers        TEXT,
	roles          TEXT,
	sharks         TEXT,
	properties     TEXT,
	content_crc32c INTEGER,
	body           BLOB,
	PRIMARY KEY (owner, bucket_id, name),
	CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024)
);

CREATE TABLE manta_bucket_deleted_bucket (
	id         TEXT    NOT NULL,
	name       TEXT    NOT NULL,
	owner      TEXT    NOT NULL,
	created    INTEGER NOT NULL,
	deleted_at INTEGER NOT NULL
);
CREATE INDEX manta_bucket_deleted_bucket_id_idx ON manta_bucket_deleted_bucket (id);
CREATE INDEX manta_bucket_deleted_bucket_deleted_at_idx ON manta_bucket_deleted_bucket (deleted_at);

-- Garbage. Bodies in rows are deleted at once, so there is no column for them. A worker claims rows for a limited
-- time.
CREATE TABLE manta_bucket_deleted_object (
	id             TEXT    NOT NULL,
	name           TEXT    NOT NULL,
	owner          TEXT    NOT NULL,
	bucket_id      TEXT    NOT NULL,
	created        INTEGER NOT NULL,
	modified       INTEGER NOT NULL,
	creator        TEXT,
	content_length INTEGER,
	content_md5    BLOB,
	content_type   TEXT,
	headers        TEXT,
	roles          TEXT,
	sharks         TEXT,
	properties     TEXT,
	deleted_at     INTEGER NOT NULL,
	claim          TEXT,
	claim_expires  INTEGER
);
CREATE INDEX manta_bucket_deleted_object_id_idx ON manta_bucket_deleted_object (id);
CREATE INDEX manta_bucket_deleted_object_deleted_at_idx ON manta_bucket_deleted_object (deleted_at);
CREATE INDEX manta_bucket_deleted_object_claim_idx ON manta_bucket_deleted_object (claim) WHERE claim IS NOT NULL;
-- The order in which a copy to another engine reads.
CREATE INDEX manta_bucket_deleted_object_bucket_idx ON manta_bucket_deleted_object (owner, bucket_id, id);
-- Finds the garbage row that owns an upload's parts.
CREATE INDEX manta_bucket_deleted_object_upload_idx ON manta_bucket_deleted_object (properties ->> '$.s3.upload')
	WHERE properties ->> '$.s3.upload' IS NOT NULL;

-- Garbage is not claimed while a hold lasts.
CREATE TABLE manta_bucket_hold (
	id      TEXT    NOT NULL PRIMARY KEY,
	expires INTEGER NOT NULL
) WITHOUT ROWID;

-- Multipart uploads in progress.
CREATE TABLE manta_bucket_upload (
	id           TEXT    NOT NULL, -- ascending
	name         TEXT    NOT NULL,
	owner        TEXT    NOT NULL,
	bucket_id    TEXT    NOT NULL,
	created      INTEGER NOT NULL,
	creator      TEXT,
	content_type TEXT,
	headers      TEXT,
	roles        TEXT,
	properties   TEXT,
	PRIMARY KEY (owner, bucket_id, name, id)
);
CREATE INDEX manta_bucket_upload_created_idx ON manta_bucket_upload (created);

-- Parts of uploads and of objects completed from uploads.
CREATE TABLE manta_bucket_part (
	owner          TEXT    NOT NULL,
	upload_id      TEXT    NOT NULL,
	number         INTEGER NOT NULL CHECK (number BETWEEN 1 AND 10000),
	bucket_id      TEXT    NOT NULL,
	name           TEXT    NOT NULL, -- object name
	id             TEXT    NOT NULL, -- body ID
	created        INTEGER NOT NULL,
	content_length INTEGER NOT NULL,
	content_md5    BLOB    NOT NULL,
	checksum       TEXT,
	sharks         TEXT,
	start          INTEGER,          -- offset in the object; NULL until the upload is complete
	content_crc32c INTEGER,
	body           BLOB,
	PRIMARY KEY (owner, upload_id, number)
);

CREATE TABLE manta_bucket_settings (
	owner     TEXT NOT NULL,
	bucket_id TEXT NOT NULL,
	settings  TEXT NOT NULL,
	PRIMARY KEY (owner, bucket_id)
) WITHOUT ROWID;

-- Usage and quotas of accounts (bucket_id is the nil UUID) and buckets.
CREATE TABLE manta_bucket_usage (
	owner       TEXT    NOT NULL,
	bucket_id   TEXT    NOT NULL,
	objects     INTEGER NOT NULL DEFAULT 0,
	bytes       INTEGER NOT NULL DEFAULT 0,
	max_objects INTEGER NOT NULL DEFAULT 0, -- 0: no limit
	max_bytes   INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (owner, bucket_id)
) WITHOUT ROWID;

CREATE TABLE manta_bucket_account (
	id          TEXT    NOT NULL PRIMARY KEY,
	name        TEXT    NOT NULL UNIQUE,
	created     INTEGER NOT NULL,
	max_objects INTEGER NOT NULL, -- copy of the quota in manta_bucket_usage
	max_bytes   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE manta_bucket_key (
	id      TEXT    NOT NULL PRIMARY KEY,
	account TEXT    NOT NULL,
	secret  BLOB    NOT NULL, -- encrypted
	created INTEGER NOT NULL,
	revoked INTEGER
) WITHOUT ROWID;
CREATE INDEX manta_bucket_key_account_idx ON manta_bucket_key (account, id);

CREATE TABLE manta_bucket_node (
	id    TEXT    NOT NULL PRIMARY KEY,
	url   TEXT    NOT NULL,
	state TEXT    NOT NULL,
	added INTEGER NOT NULL
) WITHOUT ROWID;

-- Leases for work that one process does at a time, such as maintenance.
CREATE TABLE manta_bucket_lease (
	name    TEXT    NOT NULL PRIMARY KEY,
	holder  TEXT    NOT NULL,
	process TEXT    NOT NULL, -- for display
	expires INTEGER NOT NULL
) WITHOUT ROWID;
