package opened

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
)

// Size is a table's row count, and its bytes on disk without the gaps that VACUUM removes. Data includes TOAST; on
// SQLite also a WITHOUT ROWID table's primary key, which is the table itself.
type Size struct{ Rows, Data, Indexes int64 }

// SQLiteSizes returns the sizes of all tables with rows.
func SQLiteSizes(t testing.TB, db *sqlitedb.DB) map[string]Size {
	t.Helper()
	all, copied := map[string]Size{}, filepath.Join(t.TempDir(), "copy.db")
	read := func(path, sql string, row func(*sqlite.Conn, *sqlite.Stmt) error, args ...any) {
		c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
		if err == nil {
			defer c.Close()
			err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error { return row(c, s) }})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read(db.Path(), `VACUUM INTO ?`, nil, copied)
	read(copied, `SELECT s.tbl_name, coalesce(sum(pgsize) FILTER (WHERE d.name = s.tbl_name), 0), coalesce(sum(pgsize) FILTER (WHERE d.name <> s.tbl_name), 0)
		FROM sqlite_schema s JOIN dbstat d ON d.name = s.name GROUP BY s.tbl_name`, func(c *sqlite.Conn, s *sqlite.Stmt) error {
		rows, err := sqlitex.ResultInt64(c.Prep(`SELECT count(*) FROM "` + s.ColumnText(0) + `"`))
		if err == nil && rows > 0 {
			all[s.ColumnText(0)] = Size{rows, s.ColumnInt64(1), s.ColumnInt64(2)}
		}
		return err
	})
	return all
}

// PostgresSizes rewrites all tables, and returns the sizes of tables with rows. Names do not contain the schema.
func PostgresSizes(t testing.TB, db *pgdb.DB) map[string]Size {
	t.Helper()
	var name string
	var s Size
	all := map[string]Size{}
	_, err := db.Exec(t.Context(), pgdb.Statement{Name: "vacuum", SQL: `VACUUM (FULL, ANALYZE)`})
	if err == nil {
		err = db.ForEach(t.Context(), pgdb.Statement{Name: "sizes", SQL: `
			SELECT relname::text, n_live_tup, pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables WHERE n_live_tup > 0`}, nil,
			func() { clear(all) }, func() error {
				all[name] = s
				return nil
			}, &name, &s.Rows, &s.Data, &s.Indexes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ReportSizes reports each table's bytes per record from 5 bytes on, and their sum, without outboxes, whose
// events are deleted when they are published.
func ReportSizes(b *testing.B, sizes map[string]Size, records int) {
	b.Helper()
	var sum int64
	for table, s := range sizes {
		if bytes := s.Data + s.Indexes; !strings.Contains(table, "outbox") && bytes/int64(records) >= 5 {
			sum += bytes
			b.ReportMetric(float64(bytes/int64(records)), "B-"+table)
		}
	}
	b.ReportMetric(float64(sum/int64(records)), "B/record")
	b.ReportMetric(0, "ns/op")
}
