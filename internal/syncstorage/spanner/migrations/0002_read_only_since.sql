-- When the holder made the service read-only. NULL if a server of an earlier release did.
ALTER TABLE write_control ADD COLUMN IF NOT EXISTS read_only_since TIMESTAMP;
