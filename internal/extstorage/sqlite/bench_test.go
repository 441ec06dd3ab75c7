//test:unraced SQLite takes twenty times as long under the race detector

package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	store "holdfast/internal/extstorage/sqlite"
	"holdfast/internal/extstorage/storetest"
	"holdfast/internal/testdb/opened"
)

var benchOwner = ext.Owner{Tenant: "00000000-0000-4000-8000-000000000007", Install: "00000000-0000-4000-8000-000000000070"}

const benchNow ext.Moment = 1_700_000_000_000

func benchWrite(ops ...ext.Op) ext.Write {
	return ext.Write{Ops: ops, Now: benchNow, Quota: ext.DefaultQuota(), Caller: ext.Caller{Kind: "token", ID: "7"}}
}

func benchPut(i int) ext.Op {
	return ext.Op{
		Kind: ext.Put, Namespace: "settings", Key: ext.Key(fmt.Sprintf("key-%05d", i)),
		Value: canonjson.Value(`"` + strings.Repeat("x", 498) + `"`), Metadata: canonjson.EmptyObject,
	}
}

func fill(b *testing.B, s *store.Store, keys int) {
	b.Helper()
	for i := 0; i < keys; i += 20 {
		var ops []ext.Op
		for j := i; j < min(i+20, keys); j++ {
			ops = append(ops, benchPut(j))
		}
		if _, err := s.Apply(b.Context(), benchOwner, benchWrite(ops...)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut overwrites a 500-byte record in namespaces of 100 and 5,000 keys, with one writer that waits for the
// disk, and with 64 writers that share commits. Each is compared with a plain update.
func BenchmarkPut(b *testing.B) {
	for _, keys := range []int{100, 5000} {
		db := open(b, nil)
		s := store.New(db, store.Options{})
		fill(b, s, keys)
		put := func(i int) error {
			_, err := s.Apply(b.Context(), benchOwner, benchWrite(benchPut(i%keys)))
			return err
		}
		bare := func(i int) error {
			op := benchPut(i % keys)
			return db.Write(b.Context(), "bare", func(c *sqlite.Conn) error {
				return sqlitex.Execute(c, `UPDATE ext_storage_records SET value = ?, revision = revision + 1
					WHERE tenant_id = ? AND extension_install_id = ? AND namespace = ? AND key = ?`, &sqlitex.ExecOptions{
					Args: []any{string(op.Value), string(benchOwner.Tenant), string(benchOwner.Install), "settings", string(op.Key)},
				})
			})
		}
		for name, step := range map[string]func(int) error{"put": put, "bare": bare} {
			b.Run(fmt.Sprintf("%s/keys=%d/alone", name, keys), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := step(i); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/keys=%d/together", name, keys), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(64)
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						if err := step(i * 31); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, keys := range []int{100, 5000} {
		s := store.New(open(b, nil), store.Options{})
		fill(b, s, keys)
		b.Run(fmt.Sprintf("get/keys=%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Get(b.Context(), benchOwner, "settings", benchPut(i%keys).Key, benchNow); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("list/keys=%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			q := ext.Query{Namespace: "settings", Limit: 25, Values: true, Metadata: true, Now: benchNow}
			for i := 0; b.Loop(); i++ {
				q.After = benchPut(i % (keys - 25)).Key
				p, err := s.List(b.Context(), benchOwner, q)
				if err != nil || len(p.Records) != 25 {
					b.Fatal(len(p.Records), err)
				}
			}
		})
	}
}

func BenchmarkRows(b *testing.B) {
	storetest.BenchmarkRows(b, store.New(open(b, nil), store.Options{}))
}

func BenchmarkHot(b *testing.B) {
	storetest.BenchmarkHot(b, store.New(open(b, nil), store.Options{}))
}

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (ext.Store, func(int)) {
		db := open(b, nil)
		return store.New(db, store.Options{}), func(records int) { opened.ReportSizes(b, opened.SQLiteSizes(b, db), records) }
	})
}
