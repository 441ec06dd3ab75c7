-- The tables of Firefox Sync storage on Cloud Spanner. An account ID and a key ID identify a user. They are the first
-- parts of every key, so a user's data is stored together.
--
-- Every column and index costs mutations, and a commit is limited to 80,000. A test compares these tables with package
-- budget.

CREATE TABLE IF NOT EXISTS collections (
	collection_id INT64      NOT NULL,
	name          STRING(32) NOT NULL,
) PRIMARY KEY (collection_id);

CREATE UNIQUE INDEX IF NOT EXISTS CollectionName ON collections (name);

-- In the row of collection 0, modified is the time of the user's last collection deletion, count the number of
-- collection names that the user added, and quota the user's quota. In other rows, modified is the epoch if the
-- collection does not exist but has an open batch.
--
-- count and total_bytes are NULL while no quota needs them. They include expired records, even after Spanner has deleted
-- them, which it does not report.
CREATE TABLE IF NOT EXISTS user_collections (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	modified      TIMESTAMP   NOT NULL,
	count         INT64,
	total_bytes   INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id);

-- The user's quota, in bytes. NULL: the server setting; 0: no limit. A separate statement, because databases of Mozilla's
-- server have the table without this column.
ALTER TABLE user_collections ADD COLUMN IF NOT EXISTS quota INT64;

-- There is no secondary index: it would add two mutations per record to a commit.
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

-- Whether the service is read-only, and whether writes are logged for a copy; without rows, neither. Each write locks and
-- reads one row, chosen by a hash of its user: with a single row, writes would wait for each other.
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
