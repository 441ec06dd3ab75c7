-- The tables of Firefox Sync storage. A TIMESTAMP is in milliseconds since 1970-01-01 UTC. An expiry of NULL means
-- never.

CREATE TABLE collections (
	collection_id INTEGER PRIMARY KEY AUTOINCREMENT,
	name          VARCHAR(32) NOT NULL UNIQUE
);

INSERT INTO collections (collection_id, name) VALUES
	(1, 'clients'), (2, 'crypto'), (3, 'forms'), (4, 'history'), (5, 'keys'),
	(6, 'meta'), (7, 'bookmarks'), (8, 'prefs'), (9, 'tabs'), (10, 'passwords'),
	(11, 'addons'), (12, 'addresses'), (13, 'creditcards');

-- The next ID is 100.
UPDATE sqlite_sequence SET seq = 99 WHERE name = 'collections';

-- In the row of collection 0, modified is the user's latest timestamp, count the number of collection names that the user
-- added, and quota the user's quota in bytes (NULL: the server setting, 0: no limit). In other rows, modified is 0 if
-- the collection does not exist but has an open batch.
CREATE TABLE user_collections (
	user_id       BIGINT    NOT NULL,
	collection_id INTEGER   NOT NULL,
	modified      TIMESTAMP NOT NULL,
	count         BIGINT    NOT NULL DEFAULT 0,
	total_bytes   BIGINT    NOT NULL DEFAULT 0,
	quota         BIGINT,
	PRIMARY KEY (user_id, collection_id)
) WITHOUT ROWID;

-- The payload is the last column: SQLite reads through it to reach later columns.
CREATE TABLE bsos (
	user_id       BIGINT    NOT NULL,
	collection_id INTEGER   NOT NULL,
	bso_id        TEXT      NOT NULL,
	sortindex     BIGINT,
	modified      TIMESTAMP NOT NULL,
	expiry        TIMESTAMP,
	payload       BLOB      NOT NULL,
	PRIMARY KEY (user_id, collection_id, bso_id),
	FOREIGN KEY (user_id, collection_id) REFERENCES user_collections ON DELETE CASCADE
);

-- For sort=newest with its tie-break; read backwards for oldest.
CREATE INDEX bsos_modified_idx ON bsos (user_id, collection_id, modified DESC, bso_id DESC);

-- For the sweep, and to subtract a user's expired records from the counters.
CREATE INDEX bsos_expiry_idx ON bsos (expiry, user_id, collection_id) WHERE expiry IS NOT NULL;

-- count and total_bytes cover the staged records, so appending to a large batch costs the same as to a small batch.
CREATE TABLE batches (
	user_id       BIGINT    NOT NULL,
	collection_id INTEGER   NOT NULL,
	batch_id      TEXT      NOT NULL,
	expiry        TIMESTAMP NOT NULL,
	count         BIGINT    NOT NULL DEFAULT 0,
	total_bytes   BIGINT    NOT NULL DEFAULT 0,
	PRIMARY KEY (user_id, collection_id, batch_id),
	FOREIGN KEY (user_id, collection_id) REFERENCES user_collections ON DELETE CASCADE
);

CREATE INDEX batch_expiry_idx ON batches (expiry);

CREATE TABLE batch_bsos (
	user_id       BIGINT  NOT NULL,
	collection_id INTEGER NOT NULL,
	batch_id      TEXT    NOT NULL,
	batch_bso_id  TEXT    NOT NULL,
	sortindex     BIGINT,
	ttl           BIGINT,
	payload       BLOB,
	PRIMARY KEY (user_id, collection_id, batch_id, batch_bso_id),
	FOREIGN KEY (user_id, collection_id, batch_id) REFERENCES batches ON DELETE CASCADE
);
