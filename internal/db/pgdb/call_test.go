package pgdb_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// echo returns the server's values of an argument of each type.
var echo = pgdb.Statement{Name: "echo", SQL: `
	SELECT ARRAY[$1::bigint, $2::integer, octet_length($3::text), octet_length($4::bytea), coalesce($5::bigint, -5), $6::boolean::int,
		(date_part('epoch', $7::timestamp) * 1000)::bigint,
		cardinality($8::bigint[]), coalesce($8[1], -1), coalesce($8[2], -2),
		cardinality($9::text[]), octet_length($9[1]),
		cardinality($10::bytea[]), octet_length($10[1]), coalesce(octet_length($10[2]), -2)]::bigint[]`}

func TestCall(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	at := time.Date(1999, 12, 31, 23, 59, 59, 250e6, time.UTC)
	whole, empty := pgdb.NewArgs(10), pgdb.NewArgs(10)
	for _, a := range []*pgdb.Args{whole, empty} {
		a.Bigint(-1 << 62)
		a.Integer(-7)
		a.Text("grüße")
		a.Bytea(nil)
		a.Null()
		a.Boolean(a == whole)
		a.Timestamp(at)
	}
	whole.Bigints(2, func(i int) (int64, bool) { return 9, i == 1 })
	whole.Texts(1, func(int) string { return "long enough for the buffer to grow" })
	whole.Byteas(2, func(i int) ([]byte, bool) { return []byte{0, 255}[:2-2*i], i == 0 })
	empty.Bigints(0, nil)
	empty.Texts(0, nil)
	empty.Byteas(1, func(int) ([]byte, bool) { return nil, true })

	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			want := []int64{-1 << 62, -7, 7, 0, -5, 1, at.UnixMilli(), 2, -1, 9, 1, 34, 2, 2, -2}
			for range 2 { // not prepared, then prepared
				if got, err := db.Call(t.Context(), echo, whole); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
				}
			}
			_, err := db.Call(t.Context(), echo, empty)
			wantCode(t, err, errcode.Internal) // no element has no length: a NULL

			one := pgdb.NewArgs(1)
			one.Byteas(1, func(int) ([]byte, bool) { return nil, true })
			sizes := pgdb.Statement{Name: "sizes", SQL: `SELECT ARRAY[cardinality($1::bytea[]), octet_length($1[1])]::bigint[]`}
			if got, err := db.Call(t.Context(), sizes, one); err != nil || !slices.Equal(got, []int64{1, 0}) {
				t.Errorf("got %v, %v of an array of an empty payload", got, err)
			}
			nothing := pgdb.NewArgs(1)
			nothing.Texts(0, nil)
			count := pgdb.Statement{Name: "count", SQL: `SELECT ARRAY[cardinality($1::text[])]::bigint[]`}
			if got, err := db.Call(t.Context(), count, nothing); err != nil || !slices.Equal(got, []int64{0}) {
				t.Errorf("got %v, %v of an empty array", got, err)
			}
		})
	}
}

func TestCallErrors(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1})
	for sql, code := range map[string]errcode.Code{
		`SELECT ARRAY[1 / 0]::bigint[]`:               errcode.Internal,
		`SELECT no_such_function()`:                   errcode.Unavailable,
		`SELECT ARRAY['x']::text[]`:                   errcode.Internal,
		`SELECT ARRAY[[1], [2]]::bigint[]`:            errcode.Internal,
		`SELECT NULL::bigint[]`:                       errcode.Internal,
		`SELECT ARRAY[1, 2] FROM pg_sleep(0) x`:       errcode.Internal, // of integer
		`SELECT ARRAY[1, NULL]::bigint[] WHERE 1 = 1`: errcode.Internal,
	} {
		_, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: sql}, pgdb.NewArgs(0))
		wantCode(t, err, code)
	}
	// The connection stays usable.
	got, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: `SELECT ARRAY[1]::bigint[]`}, pgdb.NewArgs(0))
	if err != nil || !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, idle, _ := db.Connections(); idle != 1 {
		t.Errorf("%d connections are idle, want 1", idle)
	}
	none, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: `SELECT ARRAY[1]::bigint[] WHERE false`}, pgdb.NewArgs(0))
	if err != nil || none != nil {
		t.Errorf("got %v, %v where there is no row", none, err)
	}
}

// TestCallEach: the values of a row are those of the server in every mode, and a retry starts again.
func TestCallEach(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	rows := pgdb.Statement{Name: "rows", SQL: `SELECT n, 'grüße ' || n, CASE WHEN n > 1 THEN '\x00ff'::bytea END,
		'1999-12-31T23:59:59.25Z'::timestamptz, 'a0000000-0000-4000-8000-00000000000f'::uuid, NULL::uuid FROM generate_series($1::bigint, 3) n`}
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			for range 2 { // not prepared, then prepared
				a := pgdb.NewArgs(1)
				a.Bigint(1)
				var got []string
				err := db.CallEach(t.Context(), rows, a, func() { got = nil }, func(r *pgdb.Row) error {
					got = append(got, fmt.Sprintf("%d %s %x %v %v %s %s %d", r.Bigint(0), r.Raw(1), r.Raw(2), r.IsNull(2), time.UnixMicro(r.Micros(3)).UTC(), r.UUID(4), r.UUID(5), r.Micros(5)))
					return nil
				})
				const rest = "1999-12-31 23:59:59.25 +0000 UTC a0000000-0000-4000-8000-00000000000f  0"
				want := []string{"1 grüße 1  true " + rest, "2 grüße 2 00ff false " + rest, "3 grüße 3 00ff false " + rest}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %q, %v", got, err)
				}
			}
			a := pgdb.NewArgs(1)
			a.Bigint(1)
			stop := errors.New("stop")
			if err := db.CallEach(t.Context(), rows, a, func() {}, func(*pgdb.Row) error { return stop }); !errors.Is(err, stop) {
				t.Errorf("the error of the function is %v", err)
			}
			wantCode(t, db.CallEach(t.Context(), rows, a, func() {}, func(r *pgdb.Row) error { r.UUID(0); return nil }), errcode.Internal)
			a = pgdb.NewArgs(1)
			a.Bigint(4)
			if err := db.CallEach(t.Context(), rows, a, func() {}, func(*pgdb.Row) error { return stop }); err != nil {
				t.Errorf("of no rows: %v", err)
			}
		})
	}
}
