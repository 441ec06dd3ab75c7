-- Copies of bodies that are missing or wrong, until they are repaired.
CREATE TABLE manta_bucket_damage (
	node         TEXT    NOT NULL,
	path         TEXT    NOT NULL,
	problem      TEXT    NOT NULL,
	state        TEXT    NOT NULL, -- damaged, or lost: no good copy was found
	first_seen   INTEGER NOT NULL,
	last_seen    INTEGER NOT NULL,
	attempts     INTEGER NOT NULL,
	next_attempt INTEGER NOT NULL,
	error        TEXT    NOT NULL,
	owner        TEXT    NOT NULL,
	bucket_id    TEXT    NOT NULL,
	id           TEXT    NOT NULL, -- of the body
	name         TEXT    NOT NULL, -- of the object; empty if the row was not read yet
	upload_id    TEXT    NOT NULL, -- empty, or the body is a part
	number       INTEGER NOT NULL,
	PRIMARY KEY (node, path)
) WITHOUT ROWID;
CREATE INDEX manta_bucket_damage_next_idx ON manta_bucket_damage (next_attempt);

-- How far the scrubber has read the copies on each node.
CREATE TABLE manta_bucket_scrub (
	node     TEXT    NOT NULL PRIMARY KEY,
	began    INTEGER NOT NULL,
	position TEXT    NOT NULL, -- the last path
	done     INTEGER NOT NULL,
	copies   INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	found    INTEGER NOT NULL,
	total    INTEGER NOT NULL, -- bytes
	ended    INTEGER NOT NULL  -- the last complete pass, or 0
) WITHOUT ROWID;
