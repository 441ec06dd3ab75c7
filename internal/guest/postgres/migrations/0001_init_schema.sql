-- The tables of the guest service. IDs are a prefix and a ULID. Text is compared and ordered as bytes.
CREATE SCHEMA bff_consumer;
