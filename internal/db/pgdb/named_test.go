package pgdb_test

import (
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

type pair struct {
	a, b     string
	isFlawed bool // the function has another parameter order
}

func (p pair) args() []pgdb.Arg {
	if p.isFlawed {
		return []pgdb.Arg{{Param: "p_b text", Value: p.b}, {Param: "p_a text", Value: p.a}}
	}
	return []pgdb.Arg{{Param: "p_a text", Value: p.a}, {Param: "p_b text", Value: p.b}}
}

func (p pair) write(a *pgdb.Args) {
	if p.isFlawed {
		a.Text("p_b", p.b)
	}
	a.Text("p_a", p.a)
	if !p.isFlawed {
		a.Text("p_b", p.b)
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t)})
	if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: `
		CREATE FUNCTION named_v1(p_b text, p_a text) RETURNS text LANGUAGE sql AS $$ SELECT 'a=' || p_a || ' b=' || p_b $$`}); err != nil {
		t.Fatal(err)
	}
	for sql, numbered := range map[string]string{
		`SELECT named_v1(...)`:                             `SELECT named_v1(p_a => $1::text, p_b => $2::text)`,
		`SELECT 'a=' || @p_a || ' b=' || @p_b`:             `SELECT 'a=' || $1::text || ' b=' || $2::text`,
		`SELECT v FROM named_v1(p_b => @p_b, p_a=>@p_a) v`: `SELECT v FROM named_v1(p_b => $2::text, p_a=>$1::text) v`,
	} {
		n := pgdb.NewNamed(pgdb.Statement{Name: "test", SQL: sql}, pair.args)
		if n.SQL != numbered {
			t.Errorf("%s: the statement is %s, want %s", sql, n.SQL, numbered)
		}
		var got string
		if _, err := db.QueryRow(t.Context(), n.Statement, n.Args(pair{a: "1", b: "2"}), &got); err != nil || got != "a=1 b=2" {
			t.Errorf("%s: got %q, %v", sql, got, err)
		}
	}

	c := pgdb.NewCall(pgdb.Statement{Name: "test", SQL: `SELECT ARRAY[length(@p_a), length(@p_b)]::bigint[]`}, pair.write)
	if got, err := db.Call(t.Context(), c.Statement, c.Args(pair{a: "1", b: "22"})); err != nil || got[0] != 1 || got[1] != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := db.Call(t.Context(), c.Statement, c.Args(pair{isFlawed: true}))
	wantCode(t, err, errcode.Internal)
	n := pgdb.NewNamed(pgdb.Statement{Name: "test", SQL: `SELECT named_v1(...)`}, pair.args)
	wantPanic(t, "argument 1 is p_b text, want p_a text", func() { n.Args(pair{isFlawed: true}) })
}

func TestNamedDeclaration(t *testing.T) {
	t.Parallel()
	for sql, says := range map[string]string{
		`SELECT f(@p_a)`:             "no parameter for the argument p_b",
		`SELECT f(@p_a, @p_b, @p_c)`: "no argument for @p_c",
	} {
		wantPanic(t, says, func() { pgdb.NewNamed(pgdb.Statement{SQL: sql}, pair.args) })
		wantPanic(t, says, func() { pgdb.NewCall(pgdb.Statement{SQL: sql}, pair.write) })
	}
	wantPanic(t, "two arguments with the name n", func() {
		pgdb.NewNamed(pgdb.Statement{SQL: `SELECT f(...)`}, func(int) []pgdb.Arg { return []pgdb.Arg{{Param: "n int"}, {Param: "n text"}} })
	})
}

func wantPanic(t *testing.T, says string, fn func()) {
	t.Helper()
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, says) {
			t.Errorf("the panic is %q, want %q", got, says)
		}
	}()
	fn()
}

type wide struct{ n int64 }

func (w wide) args() []pgdb.Arg {
	return []pgdb.Arg{
		{"a bigint", w.n}, {"b bigint", w.n}, {"c bigint", w.n}, {"d bigint", w.n}, {"e bigint", w.n}, {"f bigint", w.n},
		{"g bigint", w.n}, {"h bigint", w.n}, {"i bigint", w.n}, {"j bigint", w.n}, {"k bigint", w.n}, {"l bigint", w.n},
	}
}

func (w wide) write(a *pgdb.Args) {
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		a.Bigint(name, w.n)
	}
}

func BenchmarkNamed(b *testing.B) {
	n := pgdb.NewNamed(pgdb.Statement{SQL: `SELECT f(...)`}, wide.args)
	c := pgdb.NewCall(pgdb.Statement{SQL: `SELECT f(...)`}, wide.write)
	b.Run("positions", func(b *testing.B) {
		for b.Loop() {
			w := wide{1 << 40}
			_ = []any{w.n, w.n, w.n, w.n, w.n, w.n, w.n, w.n, w.n, w.n, w.n, w.n}
		}
	})
	b.Run("named", func(b *testing.B) {
		for b.Loop() {
			n.Args(wide{1 << 40})
		}
	})
	b.Run("binary", func(b *testing.B) {
		for b.Loop() {
			c.Args(wide{1 << 40})
		}
	})
}
