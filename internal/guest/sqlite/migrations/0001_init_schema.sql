-- The tables of guest. SQLite has no schemas: names begin with bff_consumer_, which is
-- the schema on PostgreSQL. Moments are microseconds since 1970-01-01 UTC. IDs are a
-- prefix and a ULID, UUIDs are in lower case, and text is compared by its bytes.
SELECT 1;
