-- On SQLite this migration creates tables for hot state in memory. Processes that share a database share hot state in
-- Redis.
SELECT 1;
