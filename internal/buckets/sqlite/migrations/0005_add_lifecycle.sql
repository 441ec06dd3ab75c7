-- How far the lifecycle rules of buckets are applied.
CREATE TABLE manta_bucket_lifecycle (
	owner     TEXT    NOT NULL,
	bucket_id TEXT    NOT NULL,
	rules     INTEGER NOT NULL, -- when the rules that are applied were set
	due       INTEGER NOT NULL, -- when the run continues, or the next one begins
	run       TEXT    NOT NULL, -- JSON
	PRIMARY KEY (owner, bucket_id)
) WITHOUT ROWID;

-- Finds the buckets with rules.
CREATE INDEX manta_bucket_settings_lifecycle_idx ON manta_bucket_settings (owner, bucket_id) WHERE settings ->> '$.lifecycle.rules' IS NOT NULL;
