-- What an access key may do, and until when. The name is for people; limits is a JSON object.
ALTER TABLE manta_bucket_key ADD COLUMN name text NOT NULL DEFAULT '',
	ADD COLUMN expires timestamptz, ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';
