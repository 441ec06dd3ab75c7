-- The tables of Firefox Sync storage on Cloud Spanner. A user is the pair of the account's
-- ID and the ID of its keys. It is the first part of every key, so all data of a user is
-- stored together.
--
-- Every column and index costs mutations, of which a commit may have 80,000. Package budget
-- has the same tables, and a test compares the two.

CREATE TABLE IF NOT EXISTS collections (
	collection_id INT64      NOT NULL,
	name          STRING(32) NOT NULL,
) PRIMARY KEY (collection_id);

CREATE UNIQUE INDEX IF NOT EXISTS CollectionName ON collections (name);

-- In the row of collection 0, modified is the timestamp of the user's last deletion of a
-- collection, count is how many names the user has added to collections, and quota is the
-- user's own. Any other row whose modified is the epoch is a collection that does not exist
-- yet but has an open batch.
--
-- count and total_bytes are NULL while no quota requires counting. They include expired
-- records, and those that Spanner has deleted since, which it does not report.
CREATE TABLE IF NOT EXISTS user_collections (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	modified      TIMESTAMP   NOT NULL,
	count         INT64,
	total_bytes   INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id);

-- The user's own quota, in bytes. NULL: the setting of the server; 0: no limit. It is not in
-- the statement above, because a database of Mozilla's server has the table without it.
ALTER TABLE user_collections ADD COLUMN IF NOT EXISTS quota INT64;

-- There is no index besides the key: it would add two mutations for each record of a commit.
CREATE TABLE IF NOT EXISTS bsos (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	bso_id        STRING(MAX) NOT NULL,
	sortindex     INT64,
	payload       STRING(MAX) NOT NULL,
	modified      TIMESTAMP   NOT NULL,
	expiry        TIMESTAMP   NOT NULL,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, bso_id),
	INTERLEAVE IN PARENT user_collections ON DELETE CASCADE,
	ROW DELETION POLICY (OLDER_THAN(expiry, INTERVAL 0 DAY));

CREATE TABLE IF NOT EXISTS batches (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	batch_id      STRING(MAX) NOT NULL,
	expiry        TIMESTAMP   NOT NULL,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, batch_id),
	INTERLEAVE IN PARENT user_collections ON DELETE CASCADE,
	ROW DELETION POLICY (OLDER_THAN(expiry, INTERVAL 0 DAY));

CREATE TABLE IF NOT EXISTS batch_bsos (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	batch_id      STRING(MAX) NOT NULL,
	batch_bso_id  STRING(MAX) NOT NULL,
	sortindex     INT64,
	payload       STRING(MAX),
	ttl           INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, batch_id, batch_bso_id),
	INTERLEAVE IN PARENT batches ON DELETE CASCADE;

-- Whether the service is read-only, and whether its writes are logged for a copy. Each
-- write reads one of the rows, by a hash of its user, and locks it: with a single row,
-- writes would wait for each other. Without rows it is neither.
CREATE TABLE IF NOT EXISTS write_control (
	service         STRING(64) NOT NULL,
	shard           INT64      NOT NULL,
	holder          STRING(128),
	read_only_until TIMESTAMP,
	log_until       TIMESTAMP
) PRIMARY KEY (service, shard);

INSERT OR UPDATE INTO collections (collection_id, name) VALUES
	(1, 'clients'), (2, 'crypto'), (3, 'forms'), (4, 'history'), (5, 'keys'),
	(6, 'meta'), (7, 'bookmarks'), (8, 'prefs'), (9, 'tabs'), (10, 'passwords'),
	(11, 'addons'), (12, 'addresses'), (13, 'creditcards');
