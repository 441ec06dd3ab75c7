-- The tables of Firefox Sync storage on Cloud Spanner. A user is the pair of
-- the account's id and the id of its keys, and leads every key, so that all of
-- a user's data lies together.
--
-- Every column and index costs mutations of the 80,000 that a commit may have:
-- package budget has the same tables, and a test holds the two against each
-- other.

CREATE TABLE IF NOT EXISTS collections (
	collection_id INT64      NOT NULL,
	name          STRING(32) NOT NULL,
) PRIMARY KEY (collection_id);

CREATE UNIQUE INDEX IF NOT EXISTS CollectionName ON collections (name);

-- The row of collection 0 keeps the stamp of the user's last deletion of a
-- collection in modified, and in count how many new names the user has brought
-- into collections. Any other row whose modified is the epoch is a collection
-- that does not exist yet but has an open batch.
--
-- count and total_bytes are NULL where nobody has counted: without a quota
-- nobody does. Expired records are counted, and those that Spanner has removed
-- meanwhile, of which nobody hears.
CREATE TABLE IF NOT EXISTS user_collections (
	fxa_uid       STRING(MAX) NOT NULL,
	fxa_kid       STRING(MAX) NOT NULL,
	collection_id INT64       NOT NULL,
	modified      TIMESTAMP   NOT NULL,
	count         INT64,
	total_bytes   INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id);

-- There is no index besides the key: one more would be two more mutations for
-- each record of a commit.
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

INSERT OR UPDATE INTO collections (collection_id, name) VALUES
	(1, 'clients'), (2, 'crypto'), (3, 'forms'), (4, 'history'), (5, 'keys'),
	(6, 'meta'), (7, 'bookmarks'), (8, 'prefs'), (9, 'tabs'), (10, 'passwords'),
	(11, 'addons'), (12, 'addresses'), (13, 'creditcards');
