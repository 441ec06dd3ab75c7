-- Finds the garbage that has the parts of an upload.
CREATE INDEX manta_bucket_deleted_object_upload_idx ON manta_bucket_deleted_object (properties ->> '$.s3.upload')
	WHERE properties ->> '$.s3.upload' IS NOT NULL;
