-- Change numbers of installs without a counter row start after seq. A restore raises it, because the lost server may
-- have issued numbers to installs that the backup does not contain.
CREATE TABLE ext_storage_floor (
	one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	seq INTEGER NOT NULL CHECK (seq >= 0)
) WITHOUT ROWID;

INSERT INTO ext_storage_floor (one, seq) VALUES (1, 0);

-- change_seq when the database was last restored; 0: never. The next revision of a record without a later change skips
-- as many revisions.
ALTER TABLE ext_storage_usage ADD COLUMN floor_seq INTEGER NOT NULL DEFAULT 0;
