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

// syncRows are the statements of an engine.
type syncRows interface {
	// put overwrites the user's record with this number in putCollection.
	put(user int64, record int) tx
	// post overwrites postRecords records of a collection.
	post(user, coll int64) tx
	// list reads a whole collection, which must contain this number of records.
	list(user, coll int64, records int) tx
	// info reads the times of the user's collections.
	info(user int64) tx
	// stage adds records to a user's only batch, which the first call opens. commit moves all records to the collection.
	stage(user int64, from, n int) tx
	commit(user int64, n int) tx
}

// syncLimit returns an operation's limit on an engine.
func syncLimit(do func(rows syncRows, b *bare, c, i int) tx) func(*bare) step {
	return transactions(func(b *bare, c, i int) tx {
		if b.engine.postgres != nil {
			return do(syncPostgres{}, b, c, i)
		}
		return do(syncLite{}, b, c, i)
	})
}

var (
	syncPayload  = []byte(payload(500))
	syncPayloads = slices.Repeat([][]byte{syncPayload}, postRecords)
	batchID      = collectionIDs[batchCollection]
)

// now returns the time as PostgreSQL's timestamps without time zone expect it.
func now() time.Time { return time.Now().UTC() }

// syncLite are the service's statements on SQLite, without its lookups and decisions.
type syncLite struct{}

// stamps sets the times of a collection and of the user.
func (syncLite) stamps(user, coll, now int64) []stmt {
	return []stmt{sql(liteSetCollection, now, 0, 0, user, coll).want(1), sql(liteSetUser, now, user).want(1)}
}

func (r syncLite) put(user int64, record int) tx {
	coll, now := collectionIDs[putCollection], time.Now().UnixMilli()
	return tx{
		reads:  []stmt{sql(liteCounters, user), sql(liteHeader, user, coll, id(record)).want(1)},
		writes: append([]stmt{sql(liteUpdate, nil, now, nil, syncPayload, cell{read: 1}).want(1)}, r.stamps(user, coll, now)...),
	}
}

func (r syncLite) post(user, coll int64) (t tx) {
	now := time.Now().UnixMilli()
	for _, id := range ids(0, postRecords) {
		t.writes = append(t.writes, sql(liteUpsert, user, coll, id, now, syncPayload))
	}
	t.writes = append(t.writes, r.stamps(user, coll, now)...)
	return t
}

func (syncLite) list(user, coll int64, records int) tx {
	return read(sql(liteList, user, coll, time.Now().UnixMilli()).want(records))
}

// info reads the user's own row, and a row per collection.
func (syncLite) info(user int64) tx { return read(sql(liteInfo, user).want(1 + len(syncRecords))) }

func (syncLite) stage(user int64, from, n int) (t tx) {
	if from == 0 {
		t.writes = append(t.writes, sql(liteAddCollection, user, 0, 0), sql(liteAddCollection, user, batchID, 0), sql(liteAddBatch, user, batchID))
	}
	for _, id := range ids(from, n) {
		t.writes = append(t.writes, sql(liteStage, user, batchID, id, syncPayload))
	}
	t.writes = append(t.writes, sql(liteCountBatch, n, n*len(syncPayload), user, batchID).want(1))
	return t
}

func (r syncLite) commit(user int64, n int) tx {
	now := time.Now().UnixMilli()
	return tx{writes: append([]stmt{sql(liteMove, now, user, batchID).want(n), sql(liteUnstage, user, batchID)}, r.stamps(user, batchID, now)...)}
}

// syncPostgres calls the service's function for a PUT, and writes the same rows as the service otherwise.
type syncPostgres struct{}

func (syncPostgres) put(user int64, record int) tx {
	return write(sql(pgPut, user, collectionIDs[putCollection], id(record), syncPayload, now()))
}

func (syncPostgres) post(user, coll int64) tx {
	return write(sql(pgUpsert, user, coll, now(), ids(0, postRecords), syncPayloads).want(postRecords))
}

func (syncPostgres) list(user, coll int64, records int) tx {
	return read(sql(pgList, user, coll, now()).want(records))
}

// info reads a row per collection. The user's own row has a time only after deletions.
func (syncPostgres) info(user int64) tx { return read(sql(pgInfo, user).want(len(syncRecords))) }

func (syncPostgres) stage(user int64, from, n int) (t tx) {
	if from == 0 {
		t.writes = append(t.writes, sql(pgAddCollection, user, batchID, time.Unix(0, 0).UTC()), sql(pgAddBatch, user, batchID))
	}
	t.writes = append(t.writes, sql(pgStage, user, batchID, ids(from, n), syncPayloads[:n]).want(n))
	return t
}

func (syncPostgres) commit(user int64, n int) tx {
	return write(sql(pgMove, user, batchID, now()).want(n), sql(pgUnstage, user, batchID), sql(pgStamp, user, batchID, now()))
}
