-- Events of objects that are not published yet. The topic is the destination, and the stream the name of the object.
CREATE TABLE manta_bucket_event (
	owner TEXT NOT NULL,
	stream TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, like all times here
	part INTEGER NOT NULL, -- partition
	position INTEGER PRIMARY KEY -- ascending in commit order
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE manta_bucket_event_refused (
	owner TEXT NOT NULL,
	stream TEXT NOT NULL,
	seq INTEGER NOT NULL CHECK (seq > 0),
	topic TEXT NOT NULL,
	key TEXT NOT NULL,
	payload TEXT NOT NULL,
	created_at INTEGER NOT NULL, -- microseconds since 1970, like all times here
	attempts INTEGER NOT NULL,
	reason TEXT NOT NULL,
	refused_at INTEGER NOT NULL,
	next_at INTEGER,
	PRIMARY KEY (owner, stream, seq)
) WITHOUT ROWID;

-- A lease for each partition, and one for polling.
CREATE TABLE manta_bucket_event_relay (
	topic TEXT NOT NULL,
	part INTEGER NOT NULL,
	holder TEXT NOT NULL,
	held_until INTEGER NOT NULL,
	PRIMARY KEY (topic, part)
) WITHOUT ROWID;
CREATE INDEX manta_bucket_event_topic_idx ON manta_bucket_event (topic);

-- Keeps the relay from reading events that were set aside.
CREATE INDEX manta_bucket_event_refused_next_idx ON manta_bucket_event_refused (owner, stream, seq) WHERE next_at IS NOT NULL;
