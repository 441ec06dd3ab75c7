//test:unraced the suite on PostgreSQL takes two minutes under the race detector

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// Compare benchmarks of the same run only. On a disk without latency they compare CPU time.

type bench struct {
	store *postgres.Store
	pool  *pgxpool.Pool
}

func newBench(b *testing.B, conns int, durable bool) *bench {
	b.Helper()
	url, pool := testdb.BenchPostgres(b, conns, durable)
	return &bench{open(b, pgdb.Options{URL: url, MaxConns: conns}), pool}
}

func run(b *testing.B, n int, step func(ctx context.Context, o ext.Owner, i int64) error) {
	b.Helper()
	b.ReportAllocs()
	testdb.RunBench(b, n, func(ctx context.Context, i int64) error { return step(ctx, owner(byte(i%200)), i) })
}

// key returns few keys per install, so that most writes are updates.
func key(i int64) ext.Key { return ext.Key(fmt.Sprint(i / 200 % 20)) }

var value = canonjson.Value(`{"text":"` + strings.Repeat("x", 489) + `"}`)

// callApply calls a put's function with arguments that cost the driver the least.
const callApply = `SELECT ext_apply_v1($1::uuid, $2::uuid, '{0}', '{settings}', ARRAY[$3::text], '{NULL}', '{NULL}', '{NULL}',
	ARRAY[$4::text], '{"{}"}', '{NULL}', '{f}', '{0}', '"token"', '"t"',
	$5::timestamptz, 268435456, 32, 5120, NULL::text, NULL::bytea, NULL::timestamptz, NULL::text[])`

// upsert writes without lock, precondition, counters, feed and audit.
const upsert = `INSERT INTO ext_storage_records AS r (tenant_id, extension_install_id, namespace, key, value, created_at, updated_at,
		value_bytes, metadata_bytes, change_seq)
	VALUES ($1::uuid, $2::uuid, 'bare', $3::text, $4::text::jsonb, $5::timestamptz, $5::timestamptz, 500, 2, 1)
	ON CONFLICT (tenant_id, extension_install_id, namespace, key) DO UPDATE
	SET revision = r.revision + 1, value = EXCLUDED.value, updated_at = EXCLUDED.updated_at`

func BenchmarkPut(b *testing.B) {
	for _, c := range []struct {
		conns   int
		durable bool
	}{{1, false}, {16, false}, {1, true}, {16, true}} {
		be := newBench(b, c.conns, c.durable)
		name := fmt.Sprintf("%d/", c.conns)
		if c.durable {
			name += "durable/"
		}
		b.Run(name+"store", func(b *testing.B) {
			run(b, c.conns, func(ctx context.Context, o ext.Owner, i int64) error {
				_, err := be.store.Apply(ctx, o, ext.Write{
					Ops: []ext.Op{{Namespace: "settings", Key: key(i), Value: value, Metadata: canonjson.EmptyObject}},
					Now: ext.At(time.Now()), Quota: ext.DefaultQuota(), Caller: ext.Caller{Kind: "token", ID: "t"},
				})
				return err
			})
		})
		for _, bare := range []struct{ name, sql string }{{"function", callApply}, {"upsert", upsert}} {
			b.Run(name+bare.name, func(b *testing.B) {
				run(b, c.conns, func(ctx context.Context, o ext.Owner, i int64) error {
					_, err := be.pool.Exec(ctx, bare.sql, string(o.Tenant), string(o.Install), string(key(i)), string(value), time.Now())
					return err
				})
			})
		}
	}
}

func filled(b *testing.B, s *postgres.Store, o ext.Owner, ns ext.Namespace, keys int) {
	b.Helper()
	for at := 0; at < keys; at += ext.MaxItems {
		w := ext.Write{Now: start, Quota: ext.DefaultQuota()}
		for i := at; i < min(keys, at+ext.MaxItems); i++ {
			w.Ops = append(w.Ops, ext.Op{Namespace: ns, Key: keyOf(i), Value: value, Metadata: canonjson.EmptyObject})
		}
		if _, err := s.Apply(b.Context(), o, w); err != nil {
			b.Fatal(err)
		}
	}
}

func keyOf(i int) ext.Key { return ext.Key(fmt.Sprintf("key-%05d", i)) }

func BenchmarkKeys(b *testing.B) {
	be := newBench(b, 1, false)
	o := owner(1)
	for _, keys := range []int{100, 1000, 5000} {
		ns := ext.Namespace(fmt.Sprintf("keys-%d", keys))
		filled(b, be.store, o, ns, keys)
		if _, err := be.pool.Exec(b.Context(), `VACUUM ANALYZE ext_storage_records`); err != nil {
			b.Fatal(err)
		}
		step := func(name string, fn func(ctx context.Context, i int) error) {
			b.Run(fmt.Sprintf("%s/%d", name, keys), func(b *testing.B) {
				run(b, 1, func(ctx context.Context, _ ext.Owner, i int64) error { return fn(ctx, int(i*7919%int64(keys))) })
			})
		}
		put := func(op ext.Op) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				op := op
				op.Namespace, op.Key = ns, keyOf(i)
				_, err := be.store.Apply(ctx, o, ext.Write{Ops: []ext.Op{op}, Now: start, Quota: ext.DefaultQuota()})
				return err
			}
		}
		step("put", put(ext.Op{Value: value, Metadata: canonjson.EmptyObject}))
		step("delete-and-put", func(ctx context.Context, i int) error {
			if err := put(ext.Op{Kind: ext.Delete})(ctx, i); err != nil {
				return err
			}
			return put(ext.Op{Value: value, Metadata: canonjson.EmptyObject})(ctx, i)
		})
		step("get", func(ctx context.Context, i int) error {
			_, err := be.store.Get(ctx, o, ns, keyOf(i), start)
			return err
		})
		step("list", func(ctx context.Context, i int) error {
			_, err := be.store.List(ctx, o, ext.Query{Namespace: ns, After: keyOf(i), Limit: 25, Values: true, Now: start})
			return err
		})
	}
}

// BenchmarkLargeBatch measures a write's memory in addition to its values, which httpapi charges to requests.
func BenchmarkLargeBatch(b *testing.B) {
	be := newBench(b, 1, false)
	w := ext.Write{Now: start, Quota: ext.DefaultQuota()}
	for i := range 20 {
		value := canonjson.Value(`"` + strings.Repeat("x", 25<<10) + `"`)
		w.Ops = append(w.Ops, ext.Op{Namespace: "a", Key: keyOf(i), Value: value, Metadata: canonjson.EmptyObject})
	}
	run(b, 1, func(ctx context.Context, o ext.Owner, _ int64) error {
		_, err := be.store.Apply(ctx, o, w)
		return err
	})
}

// BenchmarkRows waits for the disk.
func BenchmarkRows(b *testing.B) {
	storetest.BenchmarkRows(b, open(b, pgdb.Options{URL: testdb.DurablePostgres(b).URL()}))
}

// BenchmarkHot waits for the disk, with one server and with two.
func BenchmarkHot(b *testing.B) {
	url := testdb.DurablePostgres(b).URL()
	stores := []ext.Store{open(b, pgdb.Options{URL: url}), open(b, pgdb.Options{URL: url})}
	b.Run("one server", func(b *testing.B) { storetest.BenchmarkHot(b, stores[0]) })
	b.Run("two servers", func(b *testing.B) { storetest.BenchmarkHot(b, stores...) })
}

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (ext.Store, func(int)) {
		db := opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)
		return postgres.New(db, postgres.Options{}), func(records int) { opened.ReportSizes(b, opened.PostgresSizes(b, db), records) }
	})
}
