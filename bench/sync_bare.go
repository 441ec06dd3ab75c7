package main

import (
	"slices"
	"time"
)

// Copied from the service; see TestStatements.
const (
	liteCounters      = `SELECT modified, count, total_bytes, collection_id, quota FROM user_collections WHERE user_id = ?`
	liteHeader        = `SELECT rowid, sortindex, modified, expiry, length(payload) FROM bsos WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
	liteUpdate        = `UPDATE bsos SET sortindex = ?, modified = ?, expiry = ?, payload = ? WHERE rowid = ?`
	liteSetUser       = `UPDATE user_collections SET modified = ? WHERE user_id = ? AND collection_id = 0`
	liteSetCollection = `UPDATE user_collections SET modified = ?, count = count + ?, total_bytes = total_bytes + ? WHERE user_id = ? AND collection_id = ?`
	liteAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (?, ?, ?)`
	liteInfo          = `SELECT c.name, u.modified FROM user_collections u LEFT JOIN collections c USING (collection_id) WHERE u.user_id = ? AND u.modified > 0`
	pgInfo            = `SELECT n.name, c.modified FROM user_collections c LEFT JOIN collections n ON n.collection_id = c.collection_id
		WHERE c.user_id = $1::bigint AND c.modified > 'epoch'`
)

// Statements without the service's lookups and decisions.
const (
	liteUpsert = `INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET sortindex = excluded.sortindex, modified = excluded.modified,
			expiry = excluded.expiry, payload = excluded.payload`
	liteList = `SELECT bso_id, modified, sortindex, payload FROM bsos
		WHERE user_id = ? AND collection_id = ? AND (expiry IS NULL OR expiry > ?)
		ORDER BY modified DESC, bso_id DESC LIMIT -1 OFFSET 0`
	liteAddBatch = `INSERT INTO batches (user_id, collection_id, batch_id, expiry) VALUES (?, ?, 'b', 4102444800000)`
	liteStage    = `INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, payload) VALUES (?, ?, 'b', ?, ?)
		ON CONFLICT DO UPDATE SET sortindex = coalesce(excluded.sortindex, sortindex),
			ttl = coalesce(excluded.ttl, ttl), payload = coalesce(excluded.payload, payload)`
	liteCountBatch = `UPDATE batches SET count = count + ?, total_bytes = total_bytes + ?
		WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
	liteMove = `INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, modified, payload)
		SELECT user_id, collection_id, batch_bso_id, sortindex, ?, payload FROM batch_bsos
		WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
	liteUnstage = `DELETE FROM batches WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`

	pgPut = `SELECT sync_put_v1($1::bigint, $2::integer, $3::text, NULL::bigint, $4::bytea, NULL::bigint, $5::timestamp, NULL::timestamp, CAST(NULL AS timestamp),
		0::bigint, 0::bigint, false::boolean, false::boolean)`
	pgAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	pgUpsert        = `
		WITH c AS (UPDATE user_collections SET modified = $3 WHERE user_id = $1 AND collection_id = $2)
		INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified)
		SELECT $1, $2, u.id, u.payload, $3 FROM unnest($4::text[], $5::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`
	pgList = `SELECT bso_id, sortindex, modified, payload FROM bsos
		WHERE user_id = $1 AND collection_id = $2 AND (expiry IS NULL OR expiry > $3) ORDER BY modified DESC, bso_id DESC`
	pgAddBatch = `INSERT INTO batches (user_id, collection_id, batch_id, expiry) VALUES ($1, $2, 'b', '2100-01-01')`
	pgStage    = `
		WITH c AS (UPDATE batches SET count = count + 100, total_bytes = total_bytes + 50000 WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b')
		INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, payload)
		SELECT $1, $2, 'b', u.id, u.payload FROM unnest($3::text[], $4::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, batch_id, batch_bso_id) DO UPDATE SET payload = EXCLUDED.payload`
	pgMove = `INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified)
		SELECT user_id, collection_id, batch_bso_id, sortindex, payload, $3 FROM batch_bsos
		WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b'`
	pgUnstage = `DELETE FROM batches WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b'` // also deletes the batch's records
	pgStamp   = `UPDATE user_collections SET modified = $3 WHERE user_id = $1 AND collection_id = $2`
)

var (
	syncPayload  = []byte(payload(500))
	syncPayloads = slices.Repeat([][]byte{syncPayload}, postRecords)
	batchID      = collectionIDs[batchCollection]
)

// The methods below return an operation's limit: on SQLite the service's statements, without its lookups and
// decisions; on PostgreSQL the service's function for a PUT, and otherwise statements that write the same rows.

// now returns the time as the columns of Sync store it: milliseconds, or a timestamp without time zone.
func (b *bare) now() any {
	if b.onSQLite() {
		return time.Now().UnixMilli()
	}
	return time.Now().UTC()
}

// stamps sets the times of a collection and of the user on SQLite.
func stamps(user, coll int64, now any) []stmt {
	return []stmt{sql(liteSetCollection, now, 0, 0, user, coll).want(1), sql(liteSetUser, now, user).want(1)}
}

// syncPut overwrites the user's record with this number in putCollection.
func (b *bare) syncPut(user int64, record int) tx {
	coll, now := collectionIDs[putCollection], b.now()
	if !b.onSQLite() {
		return write(sql(pgPut, user, coll, id(record), syncPayload, now))
	}
	return tx{
		reads:  []stmt{sql(liteCounters, user), sql(liteHeader, user, coll, id(record)).want(1)},
		writes: append([]stmt{sql(liteUpdate, nil, now, nil, syncPayload, cell{read: 1}).want(1)}, stamps(user, coll, now)...),
	}
}

// syncPost overwrites the user's postRecords records in postCollection.
func (b *bare) syncPost(user int64) (t tx) {
	coll, now := collectionIDs[postCollection], b.now()
	if !b.onSQLite() {
		return write(sql(pgUpsert, user, coll, now, ids(0, postRecords), syncPayloads).want(postRecords))
	}
	for _, id := range ids(0, postRecords) {
		t.writes = append(t.writes, sql(liteUpsert, user, coll, id, now, syncPayload))
	}
	t.writes = append(t.writes, stamps(user, coll, now)...)
	return t
}

// syncList reads a whole collection, which must contain this number of records.
func (b *bare) syncList(user, coll int64, records int) tx {
	return read(sql(b.either(liteList, pgList), user, coll, b.now()).want(records))
}

// syncInfo reads the times of the user's collections. On PostgreSQL the user's own row has a time only after deletions.
func (b *bare) syncInfo(user int64) tx {
	if b.onSQLite() {
		return read(sql(liteInfo, user).want(1 + len(syncRecords)))
	}
	return read(sql(pgInfo, user).want(len(syncRecords)))
}

// syncStage adds n records to a user's only batch, which the records from 0 open.
func (b *bare) syncStage(user int64, from, n int) (t tx) {
	switch {
	case from > 0:
	case b.onSQLite():
		t.writes = []stmt{sql(liteAddCollection, user, 0, 0), sql(liteAddCollection, user, batchID, 0), sql(liteAddBatch, user, batchID)}
	default:
		t.writes = []stmt{sql(pgAddCollection, user, batchID, time.Unix(0, 0).UTC()), sql(pgAddBatch, user, batchID)}
	}
	if !b.onSQLite() {
		t.writes = append(t.writes, sql(pgStage, user, batchID, ids(from, n), syncPayloads[:n]).want(n))
		return t
	}
	for _, id := range ids(from, n) {
		t.writes = append(t.writes, sql(liteStage, user, batchID, id, syncPayload))
	}
	t.writes = append(t.writes, sql(liteCountBatch, n, n*len(syncPayload), user, batchID).want(1))
	return t
}

// syncCommit moves the n records of a user's batch to the collection.
func (b *bare) syncCommit(user int64, n int) tx {
	now := b.now()
	if !b.onSQLite() {
		return write(sql(pgMove, user, batchID, now).want(n), sql(pgUnstage, user, batchID), sql(pgStamp, user, batchID, now))
	}
	return write(append([]stmt{sql(liteMove, now, user, batchID).want(n), sql(liteUnstage, user, batchID)}, stamps(user, batchID, now)...)...)
}
