package opened

import (
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
)

// Table describes a table in PostgreSQL's catalog, a line for each column, constraint and index. The primary key's
// index counts as a constraint.
type Table struct{ Columns, Constraints, Indexes string }

const (
	columnLines = `SELECT concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
			'default ' || pg_get_expr(d.adbin, d.adrelid), 'by ' || nullif(c.collname, 'default'))
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_collation c ON c.oid = a.attcollation
		WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`
	constraintLines = `SELECT pg_get_constraintdef(oid) || CASE WHEN convalidated THEN '' ELSE ' NOT VALID' END
		FROM pg_constraint WHERE conrelid = $1::regclass ORDER BY contype DESC, 1`
	indexLines = `SELECT replace(pg_get_indexdef(indexrelid), ' ON public.', ' ON ') FROM pg_index WHERE indrelid = $1::regclass AND NOT indisprimary
		AND indisvalid ORDER BY 1`
)

// CheckTables compares the tables' columns, constraints and indexes.
func CheckTables(t testing.TB, db *pgdb.DB, want map[string]Table) {
	t.Helper()
	for table, want := range want {
		for _, c := range []struct{ what, query, want string }{
			{"columns", columnLines, want.Columns}, {"constraints", constraintLines, want.Constraints}, {"indexes", indexLines, want.Indexes},
		} {
			if got := strings.Join(Lines(t, db, c.query, table), "\n"); got != c.want {
				t.Errorf("%s: the %s are\n%s\nwant\n%s", table, c.what, got, c.want)
			}
		}
	}
}
