//test:unraced SQLite takes twenty times as long under the race detector

package sqlite_test

import (
	"testing"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb/opened"
)

func BenchmarkRows(b *testing.B) { storetest.BenchmarkRows(b, open(b, nil)) }

func BenchmarkSize(b *testing.B) {
	storetest.BenchmarkSize(b, func(b *testing.B) (ss.Store, func(int)) {
		db := opened.SQLite(b, sqlitedb.Options{}, sqlite.Migrations)
		return sqlite.New(db), func(records int) { opened.ReportSizes(b, opened.SQLiteSizes(b, db), records) }
	})
}
