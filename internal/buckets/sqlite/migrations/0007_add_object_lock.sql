-- NULL: no object lock; otherwise the default retention as a JSON object, possibly {}. A version's own lock is in its
-- properties.
ALTER TABLE manta_bucket ADD COLUMN object_lock TEXT;
