-- An access key's permissions and expiry. The name is for display; limits is a JSON object.
ALTER TABLE manta_bucket_key ADD COLUMN name    TEXT NOT NULL DEFAULT '';
ALTER TABLE manta_bucket_key ADD COLUMN expires INTEGER;
ALTER TABLE manta_bucket_key ADD COLUMN limits  TEXT NOT NULL DEFAULT '{}';
