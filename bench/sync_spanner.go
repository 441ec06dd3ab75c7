package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"holdfast/internal/db/spannerdb"
	store "holdfast/internal/syncstorage/spanner"
)

// Copied from the service without their beginnings, because the limit discards the results.
const (
	spUser = `@{LOCK_SCANNED_RANGES=exclusive}SELECT 0 AS part, CAST(NULL AS STRING) AS id, collection_id AS n, modified, count AS a, CAST(NULL AS TIMESTAMP) AS expiry, total_bytes AS b, 0 AS c, 0 AS d FROM user_collections WHERE fxa_uid = @uid AND fxa_kid = @kid`
	spSeek = ` JOIN@{JOIN_METHOD=APPLY_JOIN,FORCE_JOIN_ORDER=TRUE} `

	spRecords = spUser + ` UNION ALL SELECT 1, bso_id, sortindex, modified, BYTE_LENGTH(payload), expiry, 0, 0, 0 FROM UNNEST(@ids) AS named` + spSeek +
		`bsos ON fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND bso_id = named`
	spBatch = spUser + ` UNION ALL SELECT 2, NULL, 0, NULL, 0, expiry, 0, 0, 0 FROM batches` + spOpen +
		` UNION ALL SELECT 3, NULL, 0, NULL, COUNT(*), NULL, SUM(BYTE_LENGTH(payload)), SUM(BYTE_LENGTH(batch_bso_id)), 0 FROM batch_bsos` + spOpen
	spStaged = spBatch + ` UNION ALL SELECT 4, batch_bso_id, ttl, NULL, BYTE_LENGTH(payload), NULL, 0, 0, 0 FROM UNNEST(@ids) AS named` + spSeek +
		`batch_bsos ON fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch AND batch_bso_id = named`
	spCommit = spBatch + ` UNION ALL SELECT 5, NULL, 0, NULL, 0, NULL, SUM(BYTE_LENGTH(o.payload)), 0, 0
		FROM batch_bsos s JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
		WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch AND s.payload IS NULL`

	spOpen   = ` WHERE fxa_uid = @uid AND fxa_kid = @kid AND collection_id = @coll AND batch_id = @batch`
	spParent = `INSERT OR UPDATE INTO user_collections (fxa_uid, fxa_kid, collection_id, modified) VALUES (@uid, @kid, @coll, @stamp)`
	spMove   = `INSERT OR UPDATE INTO bsos (fxa_uid, fxa_kid, collection_id, bso_id, sortindex, payload, modified, expiry)
		SELECT s.fxa_uid, s.fxa_kid, s.collection_id, s.batch_bso_id,
			COALESCE(s.sortindex, o.sortindex), COALESCE(s.payload, o.payload, ''), @stamp,
			CASE
				WHEN s.ttl > @longest THEN @end
				WHEN s.ttl IS NOT NULL THEN TIMESTAMP_ADD(@stamp, INTERVAL s.ttl SECOND)
				WHEN o.expiry IS NULL OR o.expiry = @end OR TIMESTAMP_DIFF(o.expiry, o.modified, MILLISECOND) = @forever THEN @never
				ELSE o.expiry
			END
		FROM batch_bsos s
		LEFT JOIN bsos o ON o.fxa_uid = s.fxa_uid AND o.fxa_kid = s.fxa_kid AND o.collection_id = s.collection_id AND o.bso_id = s.batch_bso_id
			AND o.expiry > @stamp
		WHERE s.fxa_uid = @uid AND s.fxa_kid = @kid AND s.collection_id = @coll AND s.batch_id = @batch`
	spUnstage = `DELETE FROM batches` + spOpen
)

// syncSpanner serializes read-write transactions, because the emulator does, too.
type syncSpanner struct {
	syncLimit
	client  *spanner.Client
	alone   sync.Mutex
	payload string
}

func openSyncSpanner(ctx context.Context, base syncLimit, users int) (limit, error) {
	database := newDatabase()
	if err := migrateSpanner(ctx, base.engine, database); err != nil {
		return nil, err
	}
	client, err := spanner.NewClientWithConfig(ctx, database, spanner.ClientConfig{DisableNativeMetrics: true},
		option.WithEndpoint(base.engine.spanner.Host()), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return nil, err
	}
	l := &syncSpanner{syncLimit: base, client: client, payload: payload(500)}
	for user := range int64(users) {
		for name, n := range l.records {
			if err := l.write(ctx, 1+user, collectionIDs[name], l.ids[:n], 0); err != nil {
				return nil, errors.Join(err, l.close())
			}
		}
	}
	return l, nil
}

func migrateSpanner(ctx context.Context, e *engine, database string) error {
	db, err := spannerdb.Open(ctx, spannerdb.Options{Database: database, EmulatorHost: e.spanner.Host()})
	if err != nil {
		return err
	}
	defer db.Close()
	set, err := store.Migrations()
	if err != nil {
		return err
	}
	_, err = db.Migrate(ctx, set)
	return err
}

func (l *syncSpanner) close() error {
	l.client.Close()
	return nil
}

func (l *syncSpanner) settle(context.Context) error { return nil }

func (l *syncSpanner) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	switch operation {
	case workPut:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, caller, i int) error {
			return l.write(ctx, 1+int64(caller), collectionIDs[putCollection], l.ids[i%putRecords:][:1], 1+1)
		})
	case workPost:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, caller, _ int) error {
			return l.write(ctx, 1+int64(caller), collectionIDs[postCollection], l.ids[:postRecords], 1+postRecords)
		})
	}
	return 0, unknown(operation)
}

func spKey(user int64) (uid, kid string) {
	return fmt.Sprintf("%032x", user), "0000001700000-" + accountKeys
}

func (l *syncSpanner) transaction(ctx context.Context, query string, p map[string]any, least int, write func(context.Context, *spanner.ReadWriteTransaction) error) error {
	l.alone.Lock()
	defer l.alone.Unlock()
	_, err := l.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		rows := 0
		err := tx.Query(ctx, spanner.Statement{SQL: query, Params: p}).Do(func(r *spanner.Row) error {
			var (
				part                int64
				id                  spanner.NullString
				n, a, b, c, d       spanner.NullInt64
				modified, expiresAt spanner.NullTime
			)
			rows++
			return r.Columns(&part, &id, &n, &modified, &a, &expiresAt, &b, &c, &d)
		})
		if err == nil && rows < least {
			err = fmt.Errorf("read %d rows, want %d or more", rows, least)
		}
		if err != nil {
			return err
		}
		return write(ctx, tx)
	})
	return err
}

func never(stamp time.Time) time.Time { return stamp.Add(2_100_000_000 * time.Second) }

func (l *syncSpanner) write(ctx context.Context, user, coll int64, ids []string, least int) error {
	uid, kid := spKey(user)
	stamp := now().Truncate(10 * time.Millisecond)
	p := map[string]any{"uid": uid, "kid": kid, "coll": coll, "now": stamp, "ids": ids}
	return l.transaction(ctx, spRecords, p, least, func(_ context.Context, tx *spanner.ReadWriteTransaction) error {
		ms := []*spanner.Mutation{spanner.InsertOrUpdate("user_collections", []string{"fxa_uid", "fxa_kid", "collection_id", "modified"}, []any{uid, kid, coll, stamp})}
		columns := []string{"fxa_uid", "fxa_kid", "collection_id", "bso_id", "sortindex", "payload", "modified", "expiry"}
		for _, id := range ids {
			ms = append(ms, spanner.InsertOrUpdate("bsos", columns, []any{uid, kid, coll, id, spanner.NullInt64{}, l.payload, stamp, never(stamp)}))
		}
		return tx.BufferWrite(ms)
	})
}

func (l *syncSpanner) stage(ctx context.Context, user int64, i int) error {
	uid, kid := spKey(user)
	coll, staged := collectionIDs[batchCollection], l.ids[i*100:min(i*100+100, l.batch)]
	p := map[string]any{"uid": uid, "kid": kid, "coll": coll, "now": now(), "batch": "b", "ids": staged}
	least := 1
	if i > 0 {
		least += 2
	}
	return l.transaction(ctx, spStaged, p, least, func(_ context.Context, tx *spanner.ReadWriteTransaction) error {
		var ms []*spanner.Mutation
		if i == 0 {
			ms = append(ms,
				spanner.Insert("user_collections", []string{"fxa_uid", "fxa_kid", "collection_id", "modified"}, []any{uid, kid, coll, time.Unix(0, 0)}),
				spanner.Insert("batches", []string{"fxa_uid", "fxa_kid", "collection_id", "batch_id", "expiry"}, []any{uid, kid, coll, "b", now().Add(time.Hour)}))
		}
		for _, id := range staged {
			ms = append(ms, spanner.InsertOrUpdate("batch_bsos", []string{"fxa_uid", "fxa_kid", "collection_id", "batch_id", "batch_bso_id", "payload"},
				[]any{uid, kid, coll, "b", id, l.payload}))
		}
		return tx.BufferWrite(ms)
	})
}

func (l *syncSpanner) commit(ctx context.Context, user int64) error {
	uid, kid := spKey(user)
	stamp := now().Truncate(10 * time.Millisecond)
	end := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	p := map[string]any{
		"uid": uid, "kid": kid, "coll": collectionIDs[batchCollection], "now": stamp, "batch": "b", "stamp": stamp, "end": end,
		"longest": end.Unix() - stamp.Unix(), "never": never(stamp), "forever": int64(2_100_000_000_000),
	}
	return l.transaction(ctx, spCommit, p, 2+2, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		rows, err := tx.BatchUpdate(ctx, []spanner.Statement{{SQL: spParent, Params: p}, {SQL: spMove, Params: p}, {SQL: spUnstage, Params: p}})
		if err == nil && rows[1] != int64(l.batch) {
			err = fmt.Errorf("moved %d rows, want %d", rows[1], l.batch)
		}
		return err
	})
}
