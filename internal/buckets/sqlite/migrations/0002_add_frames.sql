-- Both columns are unsigned, let readers verify each chunk of a body on storage nodes, and are NULL for bodies written
-- before this migration.
ALTER TABLE manta_bucket_object ADD COLUMN content_crc64nvme INTEGER;
ALTER TABLE manta_bucket_object ADD COLUMN content_frames    INTEGER; -- frame ID
ALTER TABLE manta_bucket_part   ADD COLUMN content_crc64nvme INTEGER;
ALTER TABLE manta_bucket_part   ADD COLUMN content_frames    INTEGER;
