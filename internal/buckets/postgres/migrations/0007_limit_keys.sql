-- An access key's permissions and expiry. The name is for display; limits is a JSON object.
ALTER TABLE manta_bucket_key ADD COLUMN name text NOT NULL DEFAULT '',
	ADD COLUMN expires timestamptz, ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';
