-- When the holder made the service read-only, in milliseconds since 1970. NULL if a server of an earlier release did.
ALTER TABLE read_only ADD COLUMN since INTEGER;
