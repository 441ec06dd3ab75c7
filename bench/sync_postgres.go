package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	store "holdfast/internal/syncstorage/postgres"
)

// Statements for POST, list and batch without preconditions, locks and decisions. A PUT's limit is putScript.
const (
	pgAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	pgUpsert        = `
		WITH c AS (UPDATE user_collections SET modified = $3 WHERE user_id = $1 AND collection_id = $2)
		INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified)
		SELECT $1, $2, u.id, u.payload, $3 FROM unnest($4::text[], $5::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`

	pgList = `SELECT bso_id, sortindex, modified, payload FROM bsos
		WHERE user_id = $1 AND collection_id = $2 AND (expiry IS NULL OR expiry > $3) ORDER BY modified DESC, bso_id DESC`
	pgInfo = `SELECT n.name, c.modified FROM user_collections c LEFT JOIN collections n ON n.collection_id = c.collection_id
		WHERE c.user_id = $1::bigint AND c.modified > 'epoch'`

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

// putScript calls the server's PUT function with the same arguments.
var putScript = fmt.Sprintf(`\set uid 1 + :client_id
\set id random(%s, %s)
SELECT sync_put_v1(:uid::bigint, %d::integer, :id::text, NULL::bigint, :payload::bytea, NULL::bigint,
	:now::timestamp, NULL::timestamp, CAST(NULL AS timestamp), 0::bigint, 0::bigint, false::boolean, false::boolean);
`, id(0), id(putRecords-1), collectionIDs[putCollection])

type syncPostgres struct {
	syncLimit
	pgDatabase
	payloads [][]byte
}

const syncConnections = 10

func openSyncPostgres(ctx context.Context, base syncLimit, users int) (limit, error) {
	d, err := openPostgres(ctx, base.engine, "bare_sync", syncConnections, store.Migrations)
	if err != nil {
		return nil, err
	}
	l := &syncPostgres{syncLimit: base, pgDatabase: d, payloads: slices.Repeat([][]byte{[]byte(payload(500))}, 100)}
	for user := 1; user <= users; user++ {
		for name, n := range l.records {
			for _, coll := range []int64{0, collectionIDs[name]} { // the row that belongs to the user, as in the server
				if _, err := l.pool.Exec(ctx, pgAddCollection, user, coll, now()); err != nil {
					return nil, errors.Join(err, l.close())
				}
			}
			for from := 0; from < n; from += 100 {
				if _, err := l.pool.Exec(ctx, pgUpsert, user, collectionIDs[name], now(), l.ids[from:from+100], l.payloads); err != nil {
					return nil, errors.Join(err, l.close())
				}
			}
		}
	}
	return l, nil
}

func (l *syncPostgres) settle(ctx context.Context) error { return l.engine.settle(ctx, "") }

func (l *syncPostgres) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	switch operation {
	case workPut:
		variables := map[string]string{"payload": payload(500), "now": now().Format("2006-01-02 15:04:05.000")}
		return pgbench(ctx, l.url, putScript, variables, callers, during(d)...)
	case workPost:
		return rate(ctx, callers, lasting(d), l.post)
	case workList:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, c, _ int) error { return l.list(ctx, c, listCollection) })
	case workPage:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, c, _ int) error { return l.list(ctx, c, postCollection) })
	case workInfo:
		return rate(ctx, callers, lasting(d), l.info)
	}
	return 0, unknown(operation)
}

func (l *syncPostgres) post(ctx context.Context, caller, _ int) error {
	_, err := l.pool.Exec(ctx, pgUpsert, 1+caller, collectionIDs[postCollection], now(), l.ids[:postRecords], l.payloads)
	return err
}

func (l *syncPostgres) list(ctx context.Context, caller int, collection string) error {
	rows, err := l.pool.Query(ctx, pgList, 1+caller, collectionIDs[collection], now())
	if err != nil {
		return err
	}
	var (
		all []found
		f   found
	)
	_, err = pgx.ForEachRow(rows, []any{&f.id, &f.sortindex, &f.modified, &f.payload}, func() error { all = append(all, f); return nil })
	return checked(len(all), l.records[collection], err)
}

func (l *syncPostgres) info(ctx context.Context, caller, _ int) error {
	rows, err := l.pool.Query(ctx, pgInfo, 1+caller)
	if err != nil {
		return err
	}
	var (
		name     *string
		modified time.Time
	)
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &modified}, func() error { n++; return nil })
	return checked(n, infoRows, err)
}

func (l *syncPostgres) stage(ctx context.Context, user int64, i int) error {
	coll, staged := collectionIDs[batchCollection], l.ids[i*100:min(i*100+100, l.batch)]
	var b pgx.Batch
	if i == 0 {
		b.Queue(pgAddCollection, user, coll, time.Unix(0, 0).UTC())
		b.Queue(pgAddBatch, user, coll)
	}
	b.Queue(pgStage, user, coll, staged, l.payloads[:len(staged)])
	return l.pool.SendBatch(ctx, &b).Close()
}

func (l *syncPostgres) commit(ctx context.Context, user int64) error {
	coll := collectionIDs[batchCollection]
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, pgMove, user, coll, now())
		if err == nil && moved.RowsAffected() != int64(l.batch) {
			err = fmt.Errorf("moved %d rows, want %d", moved.RowsAffected(), l.batch)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, pgUnstage, user, coll); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, pgStamp, user, coll, now())
		return err
	})
}
