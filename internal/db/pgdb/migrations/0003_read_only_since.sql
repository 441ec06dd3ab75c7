-- When the holder made the service read-only. NULL if a server of an earlier release did.
ALTER TABLE read_only ADD COLUMN since TIMESTAMPTZ;
