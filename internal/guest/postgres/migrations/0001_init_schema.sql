-- The tables of guest. IDs are a prefix and a ULID. Text that is compared or ordered is so
-- as bytes.
CREATE SCHEMA bff_consumer;
