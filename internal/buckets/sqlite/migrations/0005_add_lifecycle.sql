-- The progress of lifecycle rules in each bucket.
CREATE TABLE manta_bucket_lifecycle (
	owner     TEXT    NOT NULL,
	bucket_id TEXT    NOT NULL,
	rules     INTEGER NOT NULL, -- when the applied rules were set
	due       INTEGER NOT NULL, -- when the run continues or the next run starts
	run       TEXT    NOT NULL, -- JSON
	PRIMARY KEY (owner, bucket_id)
) WITHOUT ROWID;

-- Finds buckets with rules.
CREATE INDEX manta_bucket_settings_lifecycle_idx ON manta_bucket_settings (owner, bucket_id) WHERE settings ->> '$.lifecycle.rules' IS NOT NULL;
