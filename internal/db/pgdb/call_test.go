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

type echoed struct {
	isWhole          bool
	at               time.Time
	numbers, bigger  int
	texts, ids, data []string
	json             []byte
}

var echo = pgdb.NewCall(pgdb.Statement{Name: "echo", SQL: `
	SELECT ARRAY[@bigint, @integer, octet_length(@text), octet_length(@bytea), coalesce(@absent, -5), @boolean::int,
		(date_part('epoch', @timestamp) * 1000)::bigint, (date_part('epoch', @timestamptz) * 1000)::bigint, coalesce(date_part('epoch', @never), -9)::bigint,
		cardinality(@bigints), coalesce((@bigints)[1], -1), coalesce((@bigints)[2], -2),
		cardinality(@texts), octet_length((@texts)[1]),
		cardinality(@byteas), octet_length((@byteas)[1]), coalesce(octet_length((@byteas)[2]), -2),
		length(@uuid::text), coalesce(length(@no_uuid::text), -3), coalesce(cardinality(@uuids), -4), coalesce(cardinality(@list), -6),
		coalesce((@jsonb ->> 'n')::bigint, -7), coalesce((@integers)[1], -8)]::bigint[]`},
	func(e echoed, a *pgdb.Args) {
		a.Bigint("bigint", -1<<62)
		a.Integer("integer", -7)
		a.Text("text", "grüße")
		a.Bytea("bytea", nil)
		a.BigintOrNull("absent", 1, false)
		a.Boolean("boolean", e.isWhole)
		a.Timestamp("timestamp", e.at)
		a.Timestamptz("timestamptz", e.at)
		a.TimestamptzOrNull("never", e.at, false)
		a.Bigints("bigints", e.numbers, func(i int) (int64, bool) { return 9, i == 1 })
		a.Texts("texts", len(e.texts), func(i int) string { return e.texts[i] })
		a.Byteas("byteas", len(e.data), func(i int) ([]byte, bool) { return []byte(e.data[i]), e.data[i] != "null" })
		a.UUID("uuid", "a0000000-0000-4000-8000-00000000000f")
		a.UUIDOrNull("no_uuid", "")
		a.UUIDsOrNull("uuids", e.ids)
		a.TextsOrNull("list", e.ids)
		a.JSONB("jsonb", e.json)
		a.Integers("integers", e.bigger, func(int) int32 { return -11 })
	})

var sizes = pgdb.NewCall(pgdb.Statement{Name: "sizes", SQL: `SELECT ARRAY[cardinality(@data), coalesce(octet_length((@data)[1]), -1), cardinality(@texts)]::bigint[]`},
	func(data [][]byte, a *pgdb.Args) {
		a.Byteas("data", len(data), func(i int) ([]byte, bool) { return data[i], true })
		a.Texts("texts", 0, nil)
	})

func TestCall(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	at := time.Date(1999, 12, 31, 23, 59, 59, 250e6, time.UTC)
	ids := []string{"a0000000-0000-4000-8000-00000000000f", "b0000000-0000-4000-8000-00000000000f"}
	whole := echoed{
		isWhole: true, at: at, numbers: 2, bigger: 1, texts: []string{"long enough for the buffer to grow"}, ids: ids,
		data: []string{"\x00\xff", "null"}, json: []byte(`{"n": 12}`),
	}
	empty := echoed{at: at, data: []string{""}}

	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			want := []int64{-1 << 62, -7, 7, 0, -5, 1, at.UnixMilli(), at.UnixMilli(), -9, 2, -1, 9, 1, 34, 2, 2, -2, 36, -3, 2, 2, 12, -11}
			for range 2 { // not prepared, then prepared
				if got, err := db.Call(t.Context(), echo.Statement, echo.Args(whole)); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
				}
			}
			_, err := db.Call(t.Context(), echo.Statement, echo.Args(empty))
			wantCode(t, err, errcode.Internal) // an element without a length is NULL

			if got, err := db.Call(t.Context(), sizes.Statement, sizes.Args([][]byte{nil})); err != nil || !slices.Equal(got, []int64{1, 0, 0}) {
				t.Errorf("got %v, %v of an array of an empty payload and an empty array", got, err)
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
		`SELECT ARRAY[1, 2] FROM pg_sleep(0) x`:       errcode.Internal,
		`SELECT ARRAY[1, NULL]::bigint[] WHERE 1 = 1`: errcode.Internal,
	} {
		_, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: sql}, new(pgdb.Args))
		wantCode(t, err, code)
	}
	got, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: `SELECT ARRAY[1]::bigint[]`}, new(pgdb.Args))
	if err != nil || !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, idle, _ := db.Connections(); idle != 1 {
		t.Errorf("%d connections are idle, want 1", idle)
	}
	none, err := db.Call(t.Context(), pgdb.Statement{Name: "test", SQL: `SELECT ARRAY[1]::bigint[] WHERE false`}, new(pgdb.Args))
	if err != nil || none != nil {
		t.Errorf("got %v, %v where there is no row", none, err)
	}
}

func TestCallEach(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	rows := pgdb.NewCall(pgdb.Statement{Name: "rows", SQL: `SELECT n, 'grüße ' || n, CASE WHEN n > 1 THEN '\x00ff'::bytea END,
		'1999-12-31T23:59:59.25Z'::timestamptz, 'a0000000-0000-4000-8000-00000000000f'::uuid, NULL::uuid FROM generate_series(@from, 3) n`},
		func(from int64, a *pgdb.Args) { a.Bigint("from", from) })
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			for range 2 {
				var got []string
				err := db.CallEach(t.Context(), rows.Statement, rows.Args(1), func() { got = nil }, func(r *pgdb.Row) error {
					got = append(got, fmt.Sprintf("%d %s %x %v %v %s %s %d", r.Bigint(0), r.Raw(1), r.Raw(2), r.IsNull(2), time.UnixMicro(r.Micros(3)).UTC(), r.UUID(4), r.UUID(5), r.Micros(5)))
					return nil
				})
				const rest = "1999-12-31 23:59:59.25 +0000 UTC a0000000-0000-4000-8000-00000000000f  0"
				want := []string{"1 grüße 1  true " + rest, "2 grüße 2 00ff false " + rest, "3 grüße 3 00ff false " + rest}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %q, %v", got, err)
				}
			}
			stop := errors.New("stop")
			if err := db.CallEach(t.Context(), rows.Statement, rows.Args(1), func() {}, func(*pgdb.Row) error { return stop }); !errors.Is(err, stop) {
				t.Errorf("the error of the function is %v", err)
			}
			wantCode(t, db.CallEach(t.Context(), rows.Statement, rows.Args(1), func() {}, func(r *pgdb.Row) error { r.UUID(0); return nil }), errcode.Internal)
			if err := db.CallEach(t.Context(), rows.Statement, rows.Args(4), func() {}, func(*pgdb.Row) error { return stop }); err != nil {
				t.Errorf("of no rows: %v", err)
			}
		})
	}
}
