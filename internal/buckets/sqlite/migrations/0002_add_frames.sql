-- What a reader needs to verify each chunk of a body on storage nodes; NULL for bodies that were
-- written before. Both are unsigned.
ALTER TABLE manta_bucket_object ADD COLUMN content_crc64nvme INTEGER;
ALTER TABLE manta_bucket_object ADD COLUMN content_frames    INTEGER; -- ID of the frames
ALTER TABLE manta_bucket_part   ADD COLUMN content_crc64nvme INTEGER;
ALTER TABLE manta_bucket_part   ADD COLUMN content_frames    INTEGER;
