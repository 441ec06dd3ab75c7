//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// Compare two benchmarks of the same run; see docs/decisions for results. With durable=false they compare CPU time
// without the disk.

type bench struct {
	store *postgres.Store
	pool  *pgxpool.Pool
}

func newBench(b *testing.B, conns int, durable bool) *bench {
	b.Helper()
	url, pool := testdb.BenchPostgres(b, conns, durable)
	return &bench{open(b, pgdb.Options{URL: url, MaxConns: conns}), pool}
}

func run(b *testing.B, n int, step func(ctx context.Context, user, i int64) error) {
	b.Helper()
	testdb.RunBench(b, n, func(ctx context.Context, i int64) error { return step(ctx, 1+i%200, i) })
}

// key returns 20 keys per user, so that most writes are updates.
func key(i int64) string { return fmt.Sprint(i / 200 % 20) }

func now() ss.Timestamp { return ss.At(time.Now()) }

// BenchmarkPut compares ways to do a conditional, counted write of 500 bytes: the store's function call; statements
// that lock first, sent in a single message or separately; and, as the limit, statements that only write.
func BenchmarkPut(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 500)
	for _, c := range []struct {
		conns   int
		durable bool
	}{{1, false}, {16, false}, {1, true}, {16, true}} {
		be := newBench(b, c.conns, c.durable)
		function := func(ctx context.Context, user, i int64) error {
			_, err := be.store.Put(ctx, ss.Owner{UID: user}, ss.Write{Collection: "bookmarks", Now: now()},
				ss.Update{ID: key(i), Payload: ss.Some(payload)})
			return err
		}
		ways := []struct {
			name string
			step func(ctx context.Context, user, i int64) error
		}{
			{"function", function},
			{"pipeline", func(ctx context.Context, user, i int64) error {
				return be.pool.SendBatch(ctx, lockFirst(user, key(i), payload)).Close()
			}},
			{"roundtrips", func(ctx context.Context, user, i int64) error {
				return pgx.BeginFunc(ctx, be.pool, func(tx pgx.Tx) error {
					batch := lockFirst(user, key(i), payload)
					for _, q := range batch.QueuedQueries[1 : batch.Len()-1] {
						if _, err := tx.Exec(ctx, q.SQL, q.Arguments...); err != nil {
							return err
						}
					}
					return nil
				})
			}},
			{"bare", func(ctx context.Context, user, i int64) error {
				_, err := be.pool.Exec(ctx, bareUpsert, user, key(i), payload)
				return err
			}},
		}
		for i := range int64(4000) {
			if err := function(b.Context(), 1+i%200, i); err != nil {
				b.Fatal(err)
			}
		}
		for _, w := range ways {
			b.Run(fmt.Sprintf("durable=%v/conns=%d/%s", c.durable, c.conns, w.name), func(b *testing.B) { run(b, c.conns, w.step) })
		}
	}
}

// BenchmarkPost compares a POST of 100 records of 500 bytes with an upsert of the same rows.
func BenchmarkPost(b *testing.B) {
	us := updates(100, 500)
	ids, payloads := make([]string, len(us)), make([][]byte, len(us))
	for i, u := range us {
		ids[i], payloads[i] = u.ID, u.Payload.Value
	}
	for _, durable := range []bool{false, true} {
		be := newBench(b, 4, durable)
		function := func(ctx context.Context, user, _ int64) error {
			_, err := be.store.Post(ctx, ss.Owner{UID: user}, ss.Write{Collection: "bookmarks", Now: now()}, us)
			return err
		}
		for user := range int64(200) {
			if err := function(b.Context(), 1+user, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("durable=%v/function", durable), func(b *testing.B) { run(b, 4, function) })
		b.Run(fmt.Sprintf("durable=%v/bare", durable), func(b *testing.B) {
			run(b, 4, func(ctx context.Context, user, _ int64) error {
				_, err := be.pool.Exec(ctx, barePost, user, ids, payloads)
				return err
			})
		})
	}
}

// BenchmarkCommit compares a commit of 10,000 records with plain SQL.
func BenchmarkCommit(b *testing.B) {
	const records = 10_000
	be := newBench(b, 1, false)
	limits := ss.BatchLimits{Records: records, Bytes: 1 << 30}
	var user int64
	stage := func(b *testing.B) (ss.Owner, ss.Write) {
		b.Helper()
		b.StopTimer()
		defer b.StartTimer()
		user++
		o, w := ss.Owner{UID: user}, ss.Write{Collection: "bookmarks", Now: now()}
		for i := range records / 100 {
			us := updates(100, 500)
			for j := range us {
				us[j].ID = fmt.Sprint(i*100 + j)
			}
			if _, err := be.store.Append(b.Context(), o, w, ss.BatchPart{ID: batch, Opens: i == 0, Updates: us, Limits: limits}); err != nil {
				b.Fatal(err)
			}
		}
		return o, w
	}
	b.Run("function", func(b *testing.B) {
		for b.Loop() {
			o, w := stage(b)
			if _, err := be.store.Commit(b.Context(), o, w, ss.BatchPart{ID: batch, Limits: limits}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			o, _ := stage(b)
			err := pgx.BeginFunc(b.Context(), be.pool, func(tx pgx.Tx) error {
				for _, sql := range bareCommit {
					if _, err := tx.Exec(b.Context(), sql, o.UID); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkList compares a listing of 1,000 records with reading the rows by the driver.
func BenchmarkList(b *testing.B) {
	be := newBench(b, 1, false)
	o := ss.Owner{UID: 1}
	if _, err := be.store.Post(b.Context(), o, ss.Write{Collection: "bookmarks", Now: now()}, updates(1000, 500)); err != nil {
		b.Fatal(err)
	}
	b.Run("store", func(b *testing.B) {
		run(b, 1, func(ctx context.Context, _, _ int64) error {
			l, err := be.store.List(ctx, o, &ss.Query{Collection: "bookmarks", Full: true, Now: now()})
			if err != nil {
				return err
			}
			defer l.Close()
			for _, err := range l.Items {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("bare", func(b *testing.B) {
		run(b, 1, func(ctx context.Context, _, _ int64) error {
			rows, err := be.pool.Query(ctx, bareList, o.UID)
			if err != nil {
				return err
			}
			var (
				id        string
				sortindex *int64
				modified  time.Time
				payload   []byte
			)
			_, err = pgx.ForEachRow(rows, []any{&id, &sortindex, &modified, &payload}, func() error { return nil })
			return err
		})
	})
	b.Run("get", func(b *testing.B) {
		run(b, 1, func(ctx context.Context, _, i int64) error {
			_, err := be.store.Get(ctx, o, ss.Request{Collection: "bookmarks", Now: now()}, fmt.Sprint(i%1000))
			return err
		})
	})
}

const batch = ss.BatchID("0123456789abcdef0123456789abcdef")

func updates(n, size int) []ss.Update {
	us := make([]ss.Update, n)
	for i := range us {
		us[i] = ss.Update{ID: fmt.Sprint(i), Payload: ss.Some(bytes.Repeat([]byte("x"), size))}
	}
	return us
}

const bareUpsert = `
	WITH c AS (
		INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES ($1::bigint, 7, now(), 1, octet_length($3::bytea))
		ON CONFLICT (user_id, collection_id) DO UPDATE SET modified = EXCLUDED.modified,
			count = c.count + EXCLUDED.count, total_bytes = c.total_bytes + EXCLUDED.total_bytes
	)
	INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified) VALUES ($1::bigint, 7, $2::text, $3::bytea, now())
	ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`

// lockFirst is a put as a transaction in a single message.
func lockFirst(user int64, id string, payload []byte) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(`BEGIN`)
	b.Queue(`INSERT INTO user_collections (user_id, collection_id, modified) VALUES ($1::bigint, 0, 'epoch') ON CONFLICT DO NOTHING`, user)
	b.Queue(`SELECT 1 FROM user_collections WHERE user_id = $1::bigint AND collection_id = 0 FOR UPDATE`, user)
	b.Queue(`
		INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		SELECT $1::bigint, 7, (SELECT greatest($4::timestamp, max(modified) + interval '10 ms') FROM user_collections WHERE user_id = $1::bigint),
			1 - count(bso_id), octet_length($3::bytea) - coalesce(sum(octet_length(payload)), 0)
		FROM bsos WHERE user_id = $1::bigint AND collection_id = 7 AND bso_id = $2::text
		ON CONFLICT (user_id, collection_id) DO UPDATE SET modified = EXCLUDED.modified,
			count = c.count + EXCLUDED.count, total_bytes = c.total_bytes + EXCLUDED.total_bytes`, user, id, payload, time.Now().UTC())
	b.Queue(`
		INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified)
		SELECT $1::bigint, 7, $2::text, $3::bytea, modified FROM user_collections WHERE user_id = $1::bigint AND collection_id = 7
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`, user, id, payload)
	b.Queue(`SELECT modified FROM user_collections WHERE user_id = $1::bigint AND collection_id = 7`, user)
	b.Queue(`COMMIT`)
	return b
}

const (
	barePost = `
		WITH c AS (
			UPDATE user_collections SET modified = now(), total_bytes = total_bytes + 1 WHERE user_id = $1::bigint AND collection_id = 7
		)
		INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified)
		SELECT $1::bigint, 7, u.id, u.payload, now() FROM unnest($2::text[], $3::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`

	bareList = `
		SELECT bso_id, sortindex, modified, payload FROM bsos WHERE user_id = $1::bigint AND collection_id = 7
		ORDER BY modified DESC, bso_id DESC`
)

var bareCommit = []string{
	`INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified)
		SELECT user_id, collection_id, batch_bso_id, sortindex, payload, now() FROM batch_bsos WHERE user_id = $1::bigint`,
	`DELETE FROM batch_bsos WHERE user_id = $1::bigint`,
}

// BenchmarkRows waits for the disk.
func BenchmarkRows(b *testing.B) {
	storetest.BenchmarkRows(b, open(b, pgdb.Options{URL: testdb.DurablePostgres(b).URL()}))
}

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (ss.Store, func(int)) {
		db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
		return postgres.New(db), func(records int) { opened.ReportSizes(b, opened.PostgresSizes(b, db), records) }
	})
}
