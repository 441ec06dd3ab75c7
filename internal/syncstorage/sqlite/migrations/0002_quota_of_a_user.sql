-- The quota of one user, in the row of collection 0, which every write reads. NULL:
-- the server's setting holds; 0: no limit.
ALTER TABLE user_collections ADD COLUMN quota BIGINT;
