-- Deletion of installs and tenants, and a limit for the namespaces that have schemas.
--
-- A deletion begins by closing the owner: closed_seq is set in its row of
-- ext_storage_usage, and no write is accepted. The rows are then deleted in steps, each
-- a transaction of its own. The closed row stays as a tombstone until no token of the
-- owner is left. The tenant as a whole is the install with the nil UUID: nothing can be
-- written for the first time by an install of a closed tenant.

-- change_seq of an owner that is deleted; NULL: it is not. A write changes change_seq,
-- so the release before cannot write either.
ALTER TABLE ext_storage_usage ADD COLUMN closed_seq INTEGER CHECK (closed_seq IS NULL OR closed_seq = change_seq);
ALTER TABLE ext_storage_usage ADD COLUMN schema_floor INTEGER NOT NULL DEFAULT 0; -- new namespaces number their schemas from here on

ALTER TABLE ext_storage_installs ADD COLUMN deleting_at INTEGER; -- when its deletion began
ALTER TABLE ext_storage_installs ADD COLUMN deleted_at INTEGER; -- when its last row was deleted
ALTER TABLE ext_storage_installs ADD COLUMN kept_until INTEGER; -- when the tombstone goes
ALTER TABLE ext_storage_installs ADD COLUMN deletion TEXT; -- how many rows were deleted, as JSON
ALTER TABLE ext_storage_installs ADD COLUMN tokens_after INTEGER; -- tokens that were issued before are refused

CREATE INDEX ext_storage_installs_kept_idx ON ext_storage_installs (kept_until) WHERE kept_until IS NOT NULL;
