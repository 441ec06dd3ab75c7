//test:unraced SQLite takes twenty times as long under the race detector

package sqlite

import (
	"path/filepath"
	"strconv"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/storetest"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// BenchmarkList lists 100 entries: objects, or folders. A page costs the same for any number of keys, unless the index is
// larger than the page cache.
func BenchmarkList(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) { benchList(b, keys) })
	}
}

func benchList(b *testing.B, keys int) {
	const owner, bucket = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000003"
	db := opened.SQLite(b, sqlitedb.Options{}, Migrations)
	err := db.WriteAlone(b.Context(), "fill", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, `
			WITH RECURSIVE k (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < ?3 - 1)
			INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, properties, body)
			SELECT printf('00000000-0000-4000-8000-%012d', n), printf('%02d/%012d', n / (?3 / 100), n), ?1, ?2, 1, 1, 1,
				x'0cc175b9c0f1b6a831c399e269772661', 'binary/octet-stream', NULL, x'61' FROM k`, owner, bucket, keys)
	})
	if err != nil {
		b.Fatal(err)
	}
	s := New(db)
	for name, q := range map[string]buckets.Query{
		"page":   {Limit: 100, Start: buckets.Position{Name: "50"}},
		"groups": {Limit: 1000, Delimiter: "/"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := s.List(b.Context(), owner, bucket, q)
				if err != nil || len(page.Entries) != 100 {
					b.Fatal(len(page.Entries), err)
				}
			}
		})
	}
}

func BenchmarkVersions(b *testing.B) {
	storetest.BenchmarkVersions(b, New(opened.SQLite(b, sqlitedb.Options{Path: filepath.Join(b.TempDir(), "buckets.db")}, Migrations)))
}

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (buckets.Backend, func(int)) {
		db := opened.SQLite(b, sqlitedb.Options{}, Migrations)
		return New(db), func(objects int) { opened.ReportSizes(b, opened.SQLiteSizes(b, db), objects) }
	})
}
