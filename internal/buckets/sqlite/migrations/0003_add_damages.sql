-- Missing and damaged copies of bodies that wait for repair.
CREATE TABLE manta_bucket_damage (
	node         TEXT    NOT NULL,
	path         TEXT    NOT NULL,
	problem      TEXT    NOT NULL,
	state        TEXT    NOT NULL, -- damaged, or lost if no good copy was found
	first_seen   INTEGER NOT NULL,
	last_seen    INTEGER NOT NULL,
	attempts     INTEGER NOT NULL,
	next_attempt INTEGER NOT NULL,
	error        TEXT    NOT NULL,
	owner        TEXT    NOT NULL,
	bucket_id    TEXT    NOT NULL,
	id           TEXT    NOT NULL, -- body ID
	name         TEXT    NOT NULL, -- object name; empty until the row is read
	upload_id    TEXT    NOT NULL, -- empty unless the body is a part
	number       INTEGER NOT NULL,
	PRIMARY KEY (node, path)
) WITHOUT ROWID;
CREATE INDEX manta_bucket_damage_next_idx ON manta_bucket_damage (next_attempt);

-- The scrubber's progress on each node.
CREATE TABLE manta_bucket_scrub (
	node     TEXT    NOT NULL PRIMARY KEY,
	began    INTEGER NOT NULL,
	position TEXT    NOT NULL, -- last path read
	done     INTEGER NOT NULL,
	copies   INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	found    INTEGER NOT NULL,
	total    INTEGER NOT NULL, -- bytes
	ended    INTEGER NOT NULL  -- end of the last complete pass, or 0
) WITHOUT ROWID;
