-- 0: never versioned, 1: enabled, 2: suspended.
ALTER TABLE manta_bucket ADD COLUMN versioning INTEGER NOT NULL DEFAULT 0;

-- Noncurrent object versions, and delete markers. The current object is in manta_bucket_object; without it, the newest
-- version here is a delete marker. A newer version has a smaller ID.
CREATE TABLE manta_bucket_version (
	owner             TEXT    NOT NULL,
	bucket_id         TEXT    NOT NULL,
	name              TEXT    NOT NULL,
	version           TEXT    NOT NULL, -- clients do not see a null version's ID
	null_version      INTEGER NOT NULL,
	marker            INTEGER NOT NULL,
	superseded        INTEGER,          -- NULL: a current delete marker
	id                TEXT    NOT NULL,
	created           INTEGER NOT NULL,
	modified          INTEGER NOT NULL,
	creator           TEXT,
	content_length    INTEGER,
	content_md5       BLOB,
	content_type      TEXT,
	headers           TEXT,
	roles             TEXT,
	sharks            TEXT,
	properties        TEXT,
	content_crc32c    INTEGER,
	content_crc64nvme INTEGER,
	content_frames    INTEGER,
	body              BLOB,
	PRIMARY KEY (owner, bucket_id, name, version)
);
CREATE UNIQUE INDEX manta_bucket_version_null_idx ON manta_bucket_version (owner, bucket_id, name) WHERE null_version;
