package sqlitedb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	type (
		number int32
		name   string
		bytes  []byte
	)
	const sql = `SELECT typeof(?1), quote(?1)`
	scan := func(s *sqlite.Stmt) string { return s.ColumnText(0) + " " + s.ColumnText(1) }
	db := open(t, sqlitedb.Options{})
	must(t, db.Read(t.Context(), "test", func(c *sqlite.Conn) error {
		for _, x := range []struct {
			arg  any
			want string
		}{
			{nil, "null NULL"}, {-1, "integer -1"}, {int64(1) << 62, "integer 4611686018427387904"}, {number(7), "integer 7"}, {true, "integer 1"},
			{"a'", "text 'a'''"}, {name("é"), "text 'é'"}, {"", "text ''"},
			{[]byte{0, 255}, "blob X'00FF'"}, {bytes("a"), "blob X'61'"}, {[]byte{}, "blob X''"}, {[]byte(nil), "blob X''"},
		} {
			if got, found, err := sqlitedb.QueryRow(c, sql, scan, x.arg); err != nil || !found || got != x.want {
				t.Errorf("%T %v is %q, %v; want %q", x.arg, x.arg, got, err, x.want)
			}
		}
		for _, args := range [][]any{{}, {1, 2}} {
			if err := sqlitedb.Exec(c, sql, args...); err == nil {
				t.Errorf("%d arguments for one parameter", len(args))
			}
		}
		return nil
	}))
}

func TestForEach(t *testing.T) {
	t.Parallel()
	const sql = `SELECT value FROM json_each(?)`
	text := func(s *sqlite.Stmt) string { return s.ColumnText(0) }
	boom := errors.New("boom")
	db := open(t, sqlitedb.Options{})
	must(t, db.Read(t.Context(), "test", func(c *sqlite.Conn) error {
		var seen []string
		err := sqlitedb.ForEach(c, sql, func(s *sqlite.Stmt) error {
			if seen = append(seen, text(s)); len(seen) == 2 {
				return boom
			}
			return nil
		}, `["a","b","c"]`)
		if !errors.Is(err, boom) || strings.Join(seen, "") != "ab" {
			t.Errorf("%v, %v", seen, err)
		}
		if all, err := sqlitedb.QueryAll(c, sql, text, `["x","y"]`); err != nil || !slices.Equal(all, []string{"x", "y"}) {
			t.Errorf("%v, %v", all, err)
		}
		if _, found, err := sqlitedb.QueryRow(c, sql, text, `[]`); err != nil || found {
			t.Errorf("a query without rows: %v", err)
		}
		if err := sqlitedb.ForEach(c, sql, func(*sqlite.Stmt) error { return nil }, `[`); err == nil {
			t.Error("the error of the engine is lost")
		}
		return nil
	}))
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, db.WriteAlone(t.Context(), "test", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, `CREATE TABLE seen (n INTEGER UNIQUE)`); err != nil {
			return err
		}
		insert := func(values ...int64) error {
			return sqlitedb.Repeat(c, `INSERT INTO seen VALUES (?)`, len(values), func(i int, s *sqlite.Stmt) { s.BindInt64(1, values[i]) })
		}
		must(t, insert())
		must(t, insert(3, 1, 2))
		if err := insert(4, 1, 5); err == nil {
			t.Error("a duplicate row was inserted")
		}
		all, err := sqlitedb.QueryAll(c, `SELECT n FROM seen ORDER BY n`, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) })
		if !slices.Equal(all, []int64{1, 2, 3, 4}) {
			t.Errorf("rows %v", all)
		}
		return err
	}))
}
