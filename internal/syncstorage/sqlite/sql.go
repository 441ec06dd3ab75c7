package sqlite

// Parameters are numbered where a statement repeats one.

const (
	sqlCollectionID = `SELECT collection_id FROM collections WHERE name = ?`
	sqlInsertName   = `INSERT INTO collections (name) VALUES (?)`
	sqlCountName    = `INSERT INTO user_collections (user_id, collection_id, modified, count) VALUES (?, 0, 0, 1)
		ON CONFLICT DO UPDATE SET count = count + 1`
	sqlCounters       = `SELECT modified, count, total_bytes, collection_id, quota FROM user_collections WHERE user_id = ?`
	sqlUserCollection = `SELECT modified, count, total_bytes FROM user_collections WHERE user_id = ? AND collection_id = ?`
)

const (
	sqlAddUser       = `INSERT INTO user_collections (modified, user_id, collection_id) VALUES (?, ?, 0)`
	sqlSetUser       = `UPDATE user_collections SET modified = ? WHERE user_id = ? AND collection_id = 0`
	sqlAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (?, ?, ?)`
	sqlSetCollection = `UPDATE user_collections SET modified = ?, count = count + ?, total_bytes = total_bytes + ?
		WHERE user_id = ? AND collection_id = ?`
	sqlSetQuota = `INSERT INTO user_collections (user_id, collection_id, modified, quota) VALUES (?, 0, 0, ?)
		ON CONFLICT DO UPDATE SET quota = excluded.quota`
	sqlDeleteNoQuota = `DELETE FROM user_collections WHERE user_id = ? AND collection_id = 0 AND modified = 0 AND count = 0 AND quota IS NULL`
	// sqlTotals takes a JSON list of users; j.key is the index.
	sqlTotals = `SELECT j.key, max(u.modified), coalesce(sum(u.count) FILTER (WHERE u.collection_id > 0), 0),
			coalesce(sum(u.total_bytes) FILTER (WHERE u.collection_id > 0), 0), max(u.quota)
		FROM json_each(?) j CROSS JOIN user_collections u WHERE u.user_id = j.value GROUP BY j.key`
	sqlOwners       = `SELECT DISTINCT user_id FROM user_collections WHERE user_id > ? AND collection_id > 0 AND modified > 0 ORDER BY user_id LIMIT ?`
	sqlExpiredBytes = `SELECT coalesce(sum(length(payload)) FILTER (WHERE collection_id = ?), 0), coalesce(sum(length(payload)), 0)
		FROM bsos WHERE expiry <= ? AND user_id = ?`
)

const (
	sqlHeader = `SELECT rowid, sortindex, modified, expiry, length(payload) FROM bsos
		WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
	// sqlHeaders takes a JSON list of IDs; j.key is the index.
	sqlHeaders = `SELECT b.rowid, b.sortindex, b.modified, b.expiry, length(b.payload), j.key
		FROM json_each(?) j CROSS JOIN bsos b
		WHERE b.user_id = ? AND b.collection_id = ? AND b.bso_id = j.value`
	sqlHeaderRange = `SELECT rowid, sortindex, modified, expiry, length(payload), bso_id FROM bsos
		WHERE user_id = ? AND collection_id = ? AND bso_id BETWEEN ? AND ? ORDER BY bso_id DESC`
	// A write uses the insert or the update, depending on the row it read: an upsert costs as much as both. Updating
	// by rowid saves a search.
	sqlInsertBSO        = `INSERT INTO bsos (sortindex, modified, expiry, payload, user_id, collection_id, bso_id) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlUpdateBSO        = `UPDATE bsos SET sortindex = ?, modified = ?, expiry = ?, payload = ? WHERE rowid = ?`
	sqlUpdateHeader     = `UPDATE bsos SET sortindex = ?, modified = ?, expiry = ? WHERE rowid = ?`
	sqlDeleteRow        = `DELETE FROM bsos WHERE rowid = ?`
	sqlDeleteBSO        = `DELETE FROM bsos WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
	sqlDeleteCollection = `DELETE FROM user_collections WHERE user_id = ? AND collection_id = ?`
	sqlDeleteUserData   = `DELETE FROM user_collections WHERE user_id = ? AND collection_id > 0`
	sqlDeleteUser       = `DELETE FROM user_collections WHERE user_id = ? AND collection_id = 0 AND count = 0 AND quota IS NULL`
	sqlForgetStamp      = `UPDATE user_collections SET modified = 0 WHERE user_id = ? AND collection_id = 0`
)

const (
	sqlAddBatch = `INSERT INTO batches (user_id, collection_id, batch_id, expiry) VALUES (?, ?, ?, ?)`
	sqlBatch    = `SELECT count, total_bytes FROM batches
		WHERE user_id = ? AND collection_id = ? AND batch_id = ? AND expiry > ?`
	sqlCountBatch  = `UPDATE batches SET count = ?, total_bytes = ? WHERE user_id = ? AND collection_id = ? AND batch_id = ?`
	sqlStagedSizes = `SELECT j.key, length(s.payload) FROM json_each(?) j CROSS JOIN batch_bsos s
		WHERE s.user_id = ? AND s.collection_id = ? AND s.batch_id = ? AND s.batch_bso_id = j.value`
	sqlStage     = `INSERT INTO batch_bsos (sortindex, ttl, payload, user_id, collection_id, batch_id, batch_bso_id) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlStageOver = `UPDATE batch_bsos SET sortindex = coalesce(?, sortindex), ttl = coalesce(?, ttl), payload = coalesce(?, payload)
		WHERE user_id = ? AND collection_id = ? AND batch_id = ? AND batch_bso_id = ?`
	sqlStaged = `SELECT batch_bso_id, sortindex, ttl, payload FROM batch_bsos
		WHERE user_id = ? AND collection_id = ? AND batch_id = ? ORDER BY batch_bso_id DESC`
	// Run this before sqlDeleteBatch: with ON DELETE CASCADE, SQLite would hold all records in memory.
	sqlDeleteStaged  = `DELETE FROM batch_bsos WHERE user_id = ? AND collection_id = ? AND batch_id = ?`
	sqlDeleteBatch   = `DELETE FROM batches WHERE user_id = ? AND collection_id = ? AND batch_id = ?`
	sqlReplacedBytes = `SELECT coalesce(sum(length(b.payload)), 0)
		FROM batch_bsos s JOIN bsos b ON b.user_id = s.user_id AND b.collection_id = s.collection_id AND b.bso_id = s.batch_bso_id
		WHERE s.user_id = ? AND s.collection_id = ? AND s.batch_id = ? AND s.payload IS NOT NULL
			AND (b.expiry IS NULL OR b.expiry > ?)`
)

const (
	sqlCollections = `SELECT c.name, u.modified FROM user_collections u LEFT JOIN collections c USING (collection_id)
		WHERE u.user_id = ? AND u.modified > 0`
	sqlUsage = `SELECT c.name, u.modified, u.quota, u.count - coalesce(e.count, 0), u.total_bytes - coalesce(e.bytes, 0)
		FROM user_collections u LEFT JOIN collections c USING (collection_id)
		LEFT JOIN (
			SELECT b.collection_id, count(*) AS count, sum(length(b.payload)) AS bytes
			FROM bsos b JOIN user_collections v ON v.user_id = b.user_id AND v.collection_id = b.collection_id
			WHERE b.expiry <= max(?2, (SELECT max(modified) FROM user_collections WHERE user_id = ?1))
				AND b.user_id = ?1 AND b.expiry <= max(?2, v.modified)
			GROUP BY b.collection_id
		) e USING (collection_id)
		WHERE u.user_id = ?1 AND (u.modified > 0 OR u.collection_id = 0)`
	sqlGet = `SELECT b.sortindex, b.modified, b.expiry, b.payload, u.modified
		FROM bsos b JOIN user_collections u USING (user_id, collection_id)
		WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
)

const (
	sqlExportCollections = `SELECT u.collection_id, c.name, u.modified FROM user_collections u JOIN collections c USING (collection_id)
		WHERE u.user_id = ? AND u.modified > 0 ORDER BY u.collection_id`
	sqlExport = `SELECT bso_id, sortindex, modified, expiry, payload FROM bsos
		WHERE user_id = ? AND collection_id = ? AND (expiry IS NULL OR expiry > ?) ORDER BY bso_id`
	sqlRestoreCollection = `UPDATE user_collections SET modified = max(modified, ?), count = count + ?, total_bytes = total_bytes + ?
		WHERE user_id = ? AND collection_id = ?`
)

const (
	sqlExpiredBSOs = `SELECT user_id, collection_id, bso_id, length(payload) FROM bsos
		WHERE expiry <= ? ORDER BY expiry LIMIT ?`
	sqlUncount = `UPDATE user_collections SET count = count - ?, total_bytes = total_bytes - ?
		WHERE user_id = ? AND collection_id = ?`
	sqlExpiredBatch = `SELECT user_id, collection_id, batch_id FROM batches WHERE expiry <= ? ORDER BY expiry LIMIT 1`
	sqlUnstage      = `DELETE FROM batch_bsos WHERE rowid IN (SELECT rowid FROM batch_bsos
		WHERE user_id = ? AND collection_id = ? AND batch_id = ? LIMIT ?)`
	sqlEndBatch     = `UPDATE batches SET expiry = 0 WHERE user_id = ? AND collection_id = ? AND batch_id = ?`
	sqlEndBatches   = `UPDATE batches SET expiry = 0`
	sqlDeleteHidden = `DELETE FROM user_collections AS u WHERE user_id = ? AND collection_id = ? AND collection_id > 0 AND modified = 0
		AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.user_id = u.user_id AND b.collection_id = u.collection_id)`
)
