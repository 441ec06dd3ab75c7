package sync

import (
	"holdfast/internal/db/rows"
	"holdfast/internal/syncstorage"
)

// tables lists Mozilla's tables, with which databases and tools of syncstorage-rs stay compatible. In all groups, the
// owner is the user's number; on Spanner, it is the account and its keys.
var tables = []rows.Group{
	{Tables: []*rows.Table{
		{Name: "collections", Key: 1, Seeded: true, Numbers: true, Columns: rows.Columns(`collection_id integer, name text`),
			Spanner: &rows.Spanner{}},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "user_collections", Key: 2,
			Columns: rows.Columns(`user_id integer, collection_id integer, modified millisutc, count integer, total_bytes integer, quota integer`),
			// In SQLite, collection 0 stores the user's last stamp; in PostgreSQL, which computes that stamp, it
			// stores the last collection deletion's stamp.
			Postgres: map[string]string{"modified": `CASE WHEN collection_id = 0
				THEN (SELECT max(u.modified) FROM user_collections u WHERE u.user_id = user_collections.user_id) ELSE modified END`},
			With: func(key rows.Row) rows.Row { return rows.Row{key[0], int64(0)} },
			Recount: `SET
				count = (SELECT count(*) FROM bsos b WHERE b.user_id = user_collections.user_id AND b.collection_id = user_collections.collection_id),
				total_bytes = (SELECT coalesce(sum(length(b.payload)), 0) FROM bsos b
					WHERE b.user_id = user_collections.user_id AND b.collection_id = user_collections.collection_id)
				WHERE collection_id <> 0`,
			Spanner: &rows.Spanner{Keys: spannerKeys, From: spannerCollections, Elsewhere: uncounted, Compare: compareCollection},
		},
		{
			Name: "bsos", Key: 3, Parents: []string{"user_collections"},
			Columns: rows.Columns(
				`user_id integer, collection_id integer, bso_id text, sortindex integer, modified millisutc, expiry millisutc, payload bytes`),
			Spanner: &rows.Spanner{Keys: spannerKeys, From: spannerRecords, Write: writeRecord, Compare: compareRecord},
		},
		{
			Name: "batches", Key: 3, Parents: []string{"user_collections"},
			Columns: rows.Columns(`user_id integer, collection_id integer, batch_id text, expiry millisutc, count integer, total_bytes integer`),
			Recount: `SET
				count = (SELECT count(*) FROM batch_bsos b
					WHERE b.user_id = batches.user_id AND b.collection_id = batches.collection_id AND b.batch_id = batches.batch_id),
				total_bytes = (SELECT coalesce(sum(length(b.payload)), 0) FROM batch_bsos b
					WHERE b.user_id = batches.user_id AND b.collection_id = batches.collection_id AND b.batch_id = batches.batch_id)
				WHERE collection_id <> 0`,
			Spanner: &rows.Spanner{
				Keys: spannerKeys, Lacks: []string{"count", "total_bytes"}, Compare: compareBatch,
				From: `SELECT fxa_uid, fxa_kid, collection_id, batch_id, expiry, 0 AS count, 0 AS total_bytes FROM batches`,
			},
		},
		{
			Name: "batch_bsos", Key: 4, Parents: []string{"user_collections", "batches"},
			Columns: rows.Columns(
				`user_id integer, collection_id integer, batch_id text, batch_bso_id text, sortindex integer, ttl integer, payload bytes`),
			Spanner: &rows.Spanner{Keys: spannerKeys},
		},
	}},
}

// spannerKeys replace user_id in all tables on Spanner.
var spannerKeys = []string{"fxa_uid", "fxa_kid"}

// spannerCollections allows users without collection 0. Without a quota, records are not counted. Mozilla's server
// stores a time before 1970 for a collection with only an open batch.
const spannerCollections = `
	SELECT u.fxa_uid, u.fxa_kid, u.collection_id, GREATEST(IF(u.collection_id = 0,
			(SELECT MAX(m.modified) FROM user_collections AS m WHERE m.fxa_uid = u.fxa_uid AND m.fxa_kid = u.fxa_kid), u.modified),
			TIMESTAMP '1970-01-01T00:00:00Z') AS modified,
		IF(u.collection_id = 0, IFNULL(u.count, 0), u.count) AS count, u.total_bytes, u.quota
	FROM user_collections AS u
	UNION ALL
	SELECT u.fxa_uid, u.fxa_kid, 0, GREATEST(
			(SELECT MAX(m.modified) FROM user_collections AS m WHERE m.fxa_uid = u.fxa_uid AND m.fxa_kid = u.fxa_kid),
			TIMESTAMP '1970-01-01T00:00:00Z'), 0, 0, NULL
	FROM user_collections AS u
	WHERE u.collection_id > 0 AND NOT EXISTS (SELECT 1 FROM user_collections AS m
		WHERE m.fxa_uid = u.fxa_uid AND m.fxa_kid = u.fxa_kid AND m.collection_id < u.collection_id)`

// uncounted sets counters that are not kept. Recount corrects them.
func uncounted(r rows.Row) {
	for i := 3; i <= 4; i++ {
		if r[i] == nil {
			r[i] = int64(0)
		}
	}
}

// forever is the TTL, in seconds, of records that never expire.
const forever = 2_100_000_000

// spannerRecords reads an expiry that means never as NULL: the TTL forever, or a time at the end of the range.
const spannerRecords = `
	SELECT fxa_uid, fxa_kid, collection_id, bso_id, sortindex, GREATEST(modified, TIMESTAMP '1970-01-01T00:00:00Z') AS modified,
		IF(TIMESTAMP_DIFF(expiry, modified, MILLISECOND) = 2100000000000 OR expiry >= TIMESTAMP '9999-12-31T23:59:59.99Z', NULL, expiry) AS expiry, payload
	FROM bsos`

// writeRecord stores an expiry for a record without one, because Spanner's column cannot be NULL.
func writeRecord(r rows.Row) {
	if r[5] == nil {
		r[5] = int64(syncstorage.ExpiresAt(syncstorage.Timestamp(r[4].(int64)), forever))
	}
}

// compareCollection skips an empty collection 0 row, e.g. for a user with only an open batch. The Spanner query
// returns such a row; SQLite does not.
func compareCollection(r rows.Row, _ int64) bool {
	r[4] = int64(0)
	if r[1] != int64(0) {
		r[3] = int64(0)
		return true
	}
	return r[2] != int64(0) || r[3] != int64(0) || r[5] != nil
}

// expiring is in milliseconds. Rows this close to their expiry are not compared.
const expiring = 60_000

// compareRecord treats the two ways to store no expiry alike, and skips records that Spanner may delete during the
// comparison.
func compareRecord(r rows.Row, now int64) bool {
	expiry, ok := r[5].(int64)
	if ok && (expiry-r[4].(int64) == forever*1000 || expiry >= int64(syncstorage.MaxTimestamp)) {
		r[5] = nil
		return true
	}
	return !ok || expiry > now+expiring
}

// compareBatch ignores the counters, which Spanner does not store, and skips batches that Spanner may delete during the
// comparison.
func compareBatch(r rows.Row, now int64) bool {
	r[4], r[5] = int64(0), int64(0)
	return r[3].(int64) > now+expiring
}
