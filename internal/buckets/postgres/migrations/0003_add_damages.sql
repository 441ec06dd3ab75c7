-- Missing and damaged copies of bodies that wait for repair. On Citus both tables stay on the coordinator.
CREATE TABLE manta_bucket_damage (
	node         text    COLLATE "C" NOT NULL,
	path         text    COLLATE "C" NOT NULL,
	problem      text    NOT NULL,
	state        text    COLLATE "C" NOT NULL, -- damaged, or lost if no good copy was found
	first_seen   timestamptz NOT NULL,
	last_seen    timestamptz NOT NULL,
	attempts     integer NOT NULL,
	next_attempt timestamptz NOT NULL,
	error        text    NOT NULL,
	owner        text    NOT NULL,
	bucket_id    text    NOT NULL,
	id           text    NOT NULL, -- body ID
	name         text    NOT NULL, -- object name; empty until the row is read
	upload_id    text    NOT NULL, -- empty unless the body is a part
	number       integer NOT NULL,
	PRIMARY KEY (node, path)
);
CREATE INDEX manta_bucket_damage_next_idx ON manta_bucket_damage (next_attempt);

-- The scrubber's progress on each node.
CREATE TABLE manta_bucket_scrub (
	node     text    COLLATE "C" PRIMARY KEY,
	began    timestamptz NOT NULL,
	position text    NOT NULL, -- last path read
	done     boolean NOT NULL,
	copies   bigint  NOT NULL,
	bytes    bigint  NOT NULL,
	found    bigint  NOT NULL,
	total    bigint  NOT NULL, -- bytes
	ended    timestamptz       -- end of the last complete pass
);
