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

const batch = ss.BatchID("0123456789abcdef0123456789abcdef")

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
