-- What an access key may do, and until when. The name is for people; limits is a JSON object.
ALTER TABLE manta_bucket_key ADD COLUMN name    TEXT NOT NULL DEFAULT '';
ALTER TABLE manta_bucket_key ADD COLUMN expires INTEGER;
ALTER TABLE manta_bucket_key ADD COLUMN limits  TEXT NOT NULL DEFAULT '{}';
