package spanner

import (
	"strings"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
)

var (
	sqlCollectionID = spannerdb.Statement{Name: "sync.collection_id", SQL: `
		SELECT collection_id FROM collections WHERE name = @name`}
	sqlNames = spannerdb.Statement{Name: "sync.collection_names", SQL: `
		SELECT collection_id, name FROM collections WHERE collection_id IN UNNEST(@ids)`}
	sqlNewName = spannerdb.Statement{Name: "sync.name", SQL: `
		SELECT (SELECT collection_id FROM collections WHERE name = @name),
			(SELECT GREATEST(IFNULL(MAX(collection_id), 0), 99) + 1 FROM collections),
			IFNULL((SELECT count FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = 0), 0),
			(SELECT modified FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = 0),
			IFNULL((SELECT read_only_until > CURRENT_TIMESTAMP() FROM write_control WHERE service = 'syncstorage' AND shard = @shard), FALSE),
			IFNULL((SELECT log_until > CURRENT_TIMESTAMP() FROM write_control WHERE service = 'syncstorage' AND shard = @shard), FALSE)`}
)

// These are the reads of a write. They are sent in one message: a UNION of numbered parts, each seeking by key. The
// hint takes exclusive locks from the start. With shared locks, two writers of a user would wait for each other, and
// Spanner would abort one of them.
const (
	exclusive = `@{LOCK_SCANNED_RANGES=exclusive}`

	// seek makes Spanner seek once per name by the whole key, whatever the planner would choose.
	seek = `JOIN@{JOIN_METHOD=APPLY_JOIN,FORCE_JOIN_ORDER=TRUE}`

	partUser    = `SELECT 0 AS part, CAST(NULL AS STRING) AS id, collection_id AS n, modified, count AS a, CAST(NULL AS TIMESTAMP) AS expiry, total_bytes AS b, quota AS c, 0 AS d FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid`
	partRecords = `SELECT 1, bso_id, sortindex, modified, BYTE_LENGTH(payload), expiry, 0, 0, 0 FROM UNNEST(@ids) AS named ` + seek + ` bsos ON fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND bso_id = named`
	partBatch   = `SELECT 2, NULL, 0, NULL, 0, expiry, 0, 0, 0 FROM batches WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch`
	partTotals  = `SELECT 3, NULL, 0, NULL, COUNT(*), NULL, SUM(BYTE_LENGTH(payload)), SUM(BYTE_LENGTH(batch_bso_id)), 0 FROM batch_bsos WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch`
	partStaged  = `SELECT 4, batch_bso_id, ttl, NULL, BYTE_LENGTH(payload), NULL, 0, 0, 0 FROM UNNEST(@ids) AS named ` + seek + ` batch_bsos ON fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch AND batch_bso_id = named`

	stamped = `GREATEST(@now, (SELECT TIMESTAMP_ADD(MAX(modified), INTERVAL 10 MILLISECOND) FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid))`

	// partMerged reads the effect of committing staged records that the request does not contain: existing records,
	// their bytes, their replacements' bytes, and the live bytes of both.
	partMerged = `SELECT 5, NULL, COUNT(o.bso_id), NULL, SUM(BYTE_LENGTH(o.payload)), NULL,
			SUM(COALESCE(BYTE_LENGTH(s.payload), IF(o.expiry > ` + stamped + `, BYTE_LENGTH(o.payload), 0), 0)),
			SUM(IF(o.expiry > ` + stamped + `, BYTE_LENGTH(o.payload), 0)),
			SUM(IF(s.ttl = 0, 0, COALESCE(BYTE_LENGTH(s.payload), IF(o.expiry > ` + stamped + `, BYTE_LENGTH(o.payload), 0), 0)))
		FROM batch_bsos s LEFT JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
		WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch AND s.batch_bso_id NOT IN UNNEST(@ids)`

	// partKept reads the same if there is no quota: payload bytes kept because the client did not send them.
	partKept = `SELECT 5, NULL, 0, NULL, 0, NULL, SUM(BYTE_LENGTH(o.payload)), 0, 0
		FROM batch_bsos s JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
		WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch AND s.payload IS NULL AND s.batch_bso_id NOT IN UNNEST(@ids)`
)

const partControl = `SELECT 6, NULL, IF(read_only_until > CURRENT_TIMESTAMP(), 1, 0), NULL, IF(log_until > CURRENT_TIMESTAMP(), 1, 0), NULL, 0, 0, 0 FROM write_control WHERE service = 'syncstorage' AND shard = @shard`

// read returns a statement that reads all that a write needs in a message.
func read(name string, parts ...string) spannerdb.Statement {
	return spannerdb.Statement{Name: name, SQL: exclusive + strings.Join(append(parts, partControl), "\n\t\tUNION ALL ")}
}

var (
	readUser        = read("sync.read_user", partUser)
	readRecords     = read("sync.read_records", partUser, partRecords)
	readBatch       = read("sync.read_batch", partUser, partBatch, partTotals, partStaged)
	readBatchQuota  = read("sync.read_batch", partUser, partBatch, partTotals, partStaged, partRecords)
	readCommit      = read("sync.read_commit", partUser, partBatch, partTotals, partStaged, partRecords, partKept)
	readCommitQuota = read("sync.read_commit", partUser, partBatch, partTotals, partStaged, partRecords, partMerged)
)

// sqlRecount counts a user's rows, bytes and live bytes.
var sqlRecount = spannerdb.Statement{Name: "sync.recount", SQL: `
	SELECT c.collection_id, COUNT(b.bso_id), IFNULL(SUM(BYTE_LENGTH(b.payload)), 0),
		IFNULL(SUM(IF(b.expiry > IF(c.collection_id = @coll, @stamp, GREATEST(@now, c.modified)), BYTE_LENGTH(b.payload), 0)), 0)
	FROM user_collections c
	LEFT JOIN bsos b ON b.fxa_uid = c.fxa_uid AND b.fxa_kid = c.fxa_kid AND b.collection_id = c.collection_id
	WHERE c.fxa_uid = @uid AND c.fxa_kid = @kid
	GROUP BY c.collection_id`}

var sqlPending = spannerdb.Statement{Name: "sync.pending", SQL: `
	SELECT IFNULL(SUM(IF(s.ttl = 0, 0, COALESCE(BYTE_LENGTH(s.payload), BYTE_LENGTH(o.payload), 0)) - COALESCE(BYTE_LENGTH(o.payload), 0)), 0)
	FROM batch_bsos s
	LEFT JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
		AND o.expiry > @stamp
	WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch`}

// A batch commit writes in this order: the collection's row, the staged records, the request's records, the batch,
// the counters. Fields that the client did not send are kept from a live record. A record that never expires stays so
// (see forever).
var (
	sqlParent = spannerdb.Statement{Name: "sync.commit.parent", SQL: `
		INSERT OR UPDATE INTO user_collections (fxa_uid, fxa_kid, collection_id, modified) VALUES (@uid, @kid, @coll, @stamp)`}
	sqlParentCounted = spannerdb.Statement{Name: "sync.commit.parent", SQL: `
		INSERT OR UPDATE INTO user_collections (fxa_uid, fxa_kid, collection_id, modified, count, total_bytes) VALUES (@uid, @kid, @coll, @stamp, @count, @bytes)`}
	sqlDrain = spannerdb.Statement{Name: "sync.commit.staged", SQL: `
		INSERT OR UPDATE INTO bsos (fxa_uid, fxa_kid, collection_id, bso_id, sortindex, payload, modified, expiry)
		SELECT s.fxa_uid, s.fxa_kid, s.collection_id, s.batch_bso_id,
			COALESCE(s.sortindex, o.sortindex), COALESCE(s.payload, o.payload, ''), @stamp, ` + committedExpiry("s.ttl") + `
		FROM batch_bsos s
		LEFT JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
			AND o.expiry > @stamp
		WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch AND s.batch_bso_id NOT IN UNNEST(@ids)`}
	sqlMerge = spannerdb.Statement{Name: "sync.commit.records", SQL: `
		INSERT OR UPDATE INTO bsos (fxa_uid, fxa_kid, collection_id, bso_id, sortindex, payload, modified, expiry)
		SELECT @uid, @kid, @coll, r.id,
			COALESCE(r.sortindex, s.sortindex, o.sortindex), COALESCE(r.payload, s.payload, o.payload, ''), @stamp, ` + committedExpiry("COALESCE(r.ttl, s.ttl)") + `
		FROM UNNEST(@records) AS r
		LEFT ` + seek + ` batch_bsos s ON s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch AND s.batch_bso_id = r.id
		LEFT ` + seek + ` bsos o ON o.fxa_uid = @uid AND o.fxa_kid = @kid AND o.collection_id = @coll AND o.bso_id = r.id
			AND o.expiry > @stamp`}
	sqlEndBatch = spannerdb.Statement{Name: "sync.commit.batch", SQL: `
		DELETE FROM batches WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch`}
	sqlCount = spannerdb.Statement{Name: "sync.commit.quota", SQL: `
		UPDATE user_collections SET modified = @stamp, count = @count, total_bytes = @bytes
		WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll`}
)

// committedExpiry computes a record's expiry at a commit, in SQL, as ss.Merge does for other writes.
func committedExpiry(ttl string) string {
	return `CASE
				WHEN ` + ttl + ` > @longest THEN @end
				WHEN ` + ttl + ` IS NOT NULL THEN TIMESTAMP_ADD(@stamp, INTERVAL ` + ttl + ` SECOND)
				WHEN o.expiry IS NULL OR o.expiry = @end OR TIMESTAMP_DIFF(o.expiry, o.modified, MILLISECOND) = @forever THEN @never
				ELSE o.expiry
			END`
}

// A collection whose stamp is the epoch does not exist yet. The GREATEST in each statement is syncstorage.Horizon.
var (
	sqlCollections = spannerdb.Statement{Name: "sync.collections", SQL: `
		SELECT collection_id, modified FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid AND modified > @epoch`}
	sqlUsage = spannerdb.Statement{Name: "sync.usage", SQL: `
		SELECT c.collection_id, c.modified, c.quota, COUNT(b.bso_id), IFNULL(SUM(BYTE_LENGTH(b.payload)), 0)
		FROM user_collections c
		LEFT JOIN bsos b ON b.fxa_uid = c.fxa_uid AND b.fxa_kid = c.fxa_kid AND b.collection_id = c.collection_id
			AND b.expiry > GREATEST(@now, c.modified)
		WHERE c.fxa_uid = @uid AND c.fxa_kid = @kid AND (c.modified > @epoch OR c.collection_id = 0)
		GROUP BY c.collection_id, c.modified, c.quota`}
	sqlGet = spannerdb.Statement{Name: "sync.get", SQL: `
		SELECT b.sortindex, b.payload, b.modified, b.expiry
		FROM user_collections c
		JOIN bsos b ON b.fxa_uid = c.fxa_uid AND b.fxa_kid = c.fxa_kid AND b.collection_id = c.collection_id
		WHERE c.fxa_uid = @uid AND c.fxa_kid = @kid AND c.collection_id = @coll AND b.bso_id = @id
			AND b.expiry > GREATEST(@now, c.modified)`}
)

var (
	sqlTotals = spannerdb.Statement{Name: "sync.totals", SQL: `
		SELECT named.n, MAX(u.modified), SUM(IF(u.collection_id > 0, u.count, 0)), SUM(IF(u.collection_id > 0, u.total_bytes, 0)),
			LOGICAL_OR(u.collection_id > 0 AND u.modified > @epoch AND (u.count IS NULL OR u.total_bytes IS NULL)), MAX(u.quota)
		FROM UNNEST(@owners) AS named ` + seek + ` user_collections u ON u.fxa_uid = named.uid AND u.fxa_kid = named.kid
		GROUP BY named.n`}
	sqlOwners = spannerdb.Statement{Name: "sync.owners", SQL: `
		SELECT DISTINCT fxa_uid, fxa_kid FROM user_collections
		WHERE (fxa_uid > @uid OR fxa_uid = @uid AND fxa_kid > @kid) AND collection_id > 0 AND modified > @epoch
		ORDER BY fxa_uid, fxa_kid LIMIT @n`}
	sqlExport = spannerdb.Statement{Name: "sync.export", SQL: `
		SELECT n.name, c.modified, b.bso_id, b.sortindex, b.modified, b.expiry, b.payload
		FROM user_collections c
		JOIN collections n ON n.collection_id = c.collection_id
		LEFT JOIN bsos b ON b.fxa_uid = c.fxa_uid AND b.fxa_kid = c.fxa_kid AND b.collection_id = c.collection_id
			AND b.expiry > GREATEST(@now, c.modified)
		WHERE c.fxa_uid = @uid AND c.fxa_kid = @kid AND c.modified > @epoch
		ORDER BY c.collection_id, b.bso_id`}
)

// listOrders contains orders with their conditions after an offset. Missing sortindexes come last, because NULL is
// the least value.
var listOrders = [...]struct{ by, after string }{
	ss.Newest: {
		by:    `modified DESC, bso_id DESC`,
		after: `(b.modified < @after OR b.modified = @after AND b.bso_id < @after_id)`,
	},
	ss.Oldest: {
		by:    `modified, bso_id`,
		after: `(b.modified > @after OR b.modified = @after AND b.bso_id > @after_id)`,
	},
	ss.ByIndex: {
		by:    `sortindex DESC, bso_id DESC`,
		after: `(IFNULL(b.sortindex, @none) < @after OR IFNULL(b.sortindex, @none) = @after AND b.bso_id < @after_id)`,
	},
}
