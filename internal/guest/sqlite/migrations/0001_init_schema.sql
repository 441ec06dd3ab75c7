-- The tables of the guest service. SQLite does not support schemas, so names start with bff_consumer_, the schema on
-- PostgreSQL. Times are microseconds since 1970-01-01 UTC. IDs are a prefix and a ULID, UUIDs are lower case, and
-- text is compared as bytes.
SELECT 1;
