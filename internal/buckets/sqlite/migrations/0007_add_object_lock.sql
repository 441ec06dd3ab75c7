-- NULL: the bucket has no object lock; otherwise a JSON object with the default retention, which may be {}. The lock of a
-- version is in its properties.
ALTER TABLE manta_bucket ADD COLUMN object_lock TEXT;
