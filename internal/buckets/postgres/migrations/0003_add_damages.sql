-- Copies of bodies that are missing or wrong, until they are repaired. On Citus both tables
-- stay on the coordinator.
CREATE TABLE manta_bucket_damage (
	node         text    COLLATE "C" NOT NULL,
	path         text    COLLATE "C" NOT NULL,
	problem      text    NOT NULL,
	state        text    COLLATE "C" NOT NULL, -- damaged, or lost: no good copy was found
	first_seen   timestamptz NOT NULL,
	last_seen    timestamptz NOT NULL,
	attempts     integer NOT NULL,
	next_attempt timestamptz NOT NULL,
	error        text    NOT NULL,
	owner        text    NOT NULL,
	bucket_id    text    NOT NULL,
	id           text    NOT NULL, -- of the body
	name         text    NOT NULL, -- of the object; empty if the row was not read yet
	upload_id    text    NOT NULL, -- empty, or the body is a part
	number       integer NOT NULL,
	PRIMARY KEY (node, path)
);
CREATE INDEX manta_bucket_damage_next_idx ON manta_bucket_damage (next_attempt);

-- How far the scrubber has read the copies on each node.
CREATE TABLE manta_bucket_scrub (
	node     text    COLLATE "C" PRIMARY KEY,
	began    timestamptz NOT NULL,
	position text    NOT NULL, -- the last path
	done     boolean NOT NULL,
	copies   bigint  NOT NULL,
	bytes    bigint  NOT NULL,
	found    bigint  NOT NULL,
	total    bigint  NOT NULL, -- bytes
	ended    timestamptz       -- the last complete pass
);
