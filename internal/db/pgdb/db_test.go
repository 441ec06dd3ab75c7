package pgdb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

func open(t testing.TB, opts pgdb.Options) *pgdb.DB {
	t.Helper()
	db, err := pgdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

var (
	selectOne = pgdb.Statement{Name: "one", SQL: `SELECT 1`}
	sleep     = pgdb.Statement{Name: "sleep", SQL: `SELECT 1 FROM pg_sleep($1::float8)`}
	series    = pgdb.Statement{Name: "series", SQL: `SELECT n, repeat('x', 1000) FROM generate_series(1, $1::int) n`}
)

func wantCode(t *testing.T, err error, code errcode.Code) {
	t.Helper()
	if err == nil || errcode.Of(err) != code {
		t.Errorf("got %v (%s), want %s", err, errcode.Of(err), code)
	}
}

func TestOneExecEach(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			ctx := t.Context()
			statement := func(sql string) pgdb.Statement { return pgdb.Statement{Name: "test", SQL: sql} }
			if _, err := db.Exec(ctx, statement(`CREATE TEMP TABLE t (id bigint, b bytea)`)); err != nil {
				t.Fatal(err)
			}
			// The pool returns the last used connection first, and only this test uses it.
			n, err := db.Exec(ctx, statement(`INSERT INTO t SELECT u.id, u.b FROM unnest($1::bigint[], $2::bytea[]) u (id, b)`),
				[]int64{1, 2}, [][]byte{{0, 255}, nil})
			if err != nil || n != 2 {
				t.Fatalf("%d rows, %v", n, err)
			}
			var b []byte
			found, err := db.QueryRow(ctx, statement(`SELECT b FROM t WHERE id = $1::bigint`), []any{int64(1)}, &b)
			if err != nil || !found || string(b) != "\x00\xff" {
				t.Errorf("found %v %q, %v", found, b, err)
			}
			found, err = db.QueryRow(ctx, statement(`SELECT b FROM t WHERE id = $1::bigint`), []any{int64(3)}, &b)
			if err != nil || found {
				t.Errorf("found %v, %v", found, err)
			}
			var id, sum int64
			err = db.ForEach(ctx, statement(`SELECT id FROM t`), nil, func() { sum = 0 }, func() error { sum += id; return nil }, &id)
			if err != nil || sum != 3 {
				t.Errorf("sum %d, %v", sum, err)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]error{}
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), Observe: func(name string, d time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if d <= 0 {
			t.Errorf("%s took %v", name, d)
		}
		seen[name] = err
	}})
	var n int
	if _, err := db.QueryRow(t.Context(), selectOne, nil, &n); err != nil {
		t.Fatal(err)
	}
	_, err := db.Exec(t.Context(), pgdb.Statement{Name: "broken", SQL: `SELECT 1/0`})
	wantCode(t, err, errcode.Internal)
	mu.Lock()
	defer mu.Unlock()
	if err, ok := seen["one"]; !ok || err != nil {
		t.Errorf("one: %v %v", ok, err)
	}
	if seen["broken"] == nil {
		t.Error("the error of broken was not observed")
	}
}

func TestClassification(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t)})
	for _, c := range []struct {
		name, sql string
		code      errcode.Code
		message   string
	}{
		{"missing table", `SELECT 1 FROM no_such_table`, errcode.Unavailable, "holdfast migrate"},
		{"missing function", `SELECT no_such_function()`, errcode.Unavailable, "holdfast migrate"},
		{"disk full", `DO $$ BEGIN RAISE SQLSTATE '53100'; END $$`, errcode.Unavailable, "disk is full"},
		{"read only", `DO $$ BEGIN RAISE SQLSTATE '25006'; END $$`, errcode.Unavailable, "read-only"},
		{"shutdown", `DO $$ BEGIN RAISE SQLSTATE '57P01'; END $$`, errcode.Unavailable, "the database is unavailable"},
		{"connection", `DO $$ BEGIN RAISE SQLSTATE '08006'; END $$`, errcode.Unavailable, "the database is unavailable"},
		{"deadlock, again and again", `DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$`, errcode.Unavailable, "lock conflict"},
		{"our mistake", `SELECT 1/0`, errcode.Internal, "internal"},
		{"terminated", `SELECT pg_terminate_backend(pg_backend_pid())`, errcode.Unavailable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := db.Exec(t.Context(), pgdb.Statement{Name: "test", SQL: c.sql})
			wantCode(t, err, c.code)
			if !strings.Contains(errcode.Message(err), c.message) {
				t.Errorf("the message is %q", errcode.Message(err))
			}
		})
	}
}

func TestOpenRefusesNonsense(t *testing.T) {
	t.Parallel()
	_, err := pgdb.Open(t.Context(), pgdb.Options{URL: "postgres://host:port/x"})
	wantCode(t, err, errcode.Invalid)
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://user@127.0.0.1:1/d":     "no database connection: 127.0.0.1:1: connection refused; nothing listens at the address: start the server there, or correct host and port",
		"postgres://user@host.invalid/d":    "no database connection: unknown host host.invalid; the name host.invalid does not exist in DNS: correct the address, or add the name",
		"postgres://user@[::1]:1,[::1]:2/d": "connection refused; nothing listens at the address: start the server there, or correct host and port",
	} {
		db := open(t, pgdb.Options{URL: url, ConnectTimeout: 10 * time.Second, StatementTimeout: time.Minute})
		_, err := db.Exec(t.Context(), selectOne)
		if !errcode.Is(err, errcode.Unavailable) || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1, StatementTimeout: 500 * time.Millisecond})
	_, err := db.Exec(t.Context(), sleep, 60.0)
	wantTooLong(t, err)
	_, err = db.Stream(t.Context(), sleep, 60.0)
	wantTooLong(t, err)
	if _, err := db.Exec(t.Context(), selectOne); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func wantTooLong(t *testing.T, err error) {
	t.Helper()
	wantCode(t, err, errcode.Unavailable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want a deadline error", err)
	}
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := db.Exec(ctx, sleep, 60.0)
	wantCode(t, err, errcode.Unavailable)
	if _, err := db.Exec(t.Context(), selectOne); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestPoolWaitIsBounded(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1, ConnectTimeout: 5 * time.Second})
	rows, err := db.Stream(t.Context(), selectOne)
	if err != nil {
		t.Fatal(err)
	}
	if active, idle, most := db.Connections(); active != 1 || idle != 0 || most != 1 {
		t.Errorf("%d active, %d idle of %d", active, idle, most)
	}
	before, _ := db.Waits()
	_, err = db.Exec(t.Context(), selectOne)
	wantCode(t, err, errcode.Unavailable)
	if n, _ := db.Waits(); n != before+1 {
		t.Errorf("%d waits after one more than %d", n, before)
	}
	for rows.Next() { // the connection is free after the last row
	}
	rows.Close()
	if _, err := db.Exec(t.Context(), selectOne); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1})
	for _, stopAt := range []int{0, 1, 10, 5000} {
		rows, err := db.Stream(t.Context(), series, 5000)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for n < stopAt && rows.Next() {
			n++
			var i int
			var s string
			if err := rows.Scan(&i, &s); err != nil || i != n {
				t.Fatalf("row %d: %d, %v", n, i, err)
			}
		}
		if stopAt == 5000 && rows.Next() {
			t.Error("one row too many")
		}
		rows.Close()
		if _, err := db.Exec(t.Context(), selectOne); err != nil {
			t.Errorf("after %d rows: %v", stopAt, err)
		}
	}
}

// TestGivenUp checks that a connection with a cancelled statement is not used again, because a late cancel request may
// cancel another statement.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1, StatementTimeout: 5 * time.Second})
	other := open(t, pgdb.Options{URL: testdb.Postgres(t), MaxConns: 1})
	sleeping := pgdb.Statement{Name: "sleeping", SQL: `SELECT pid FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`}
	backend := func() (pid int) {
		t.Helper()
		found, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "pid", SQL: `SELECT pg_backend_pid()`}, nil, &pid)
		if err != nil || !found {
			t.Fatal(err)
		}
		return pid
	}
	stream := func(read int) {
		t.Helper()
		rows, err := db.Stream(t.Context(), series, 5000)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < read && rows.Next(); n++ {
		}
		rows.Close()
	}
	pid := backend()
	stream(6000)
	if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "broken", SQL: `SELECT 1/0`}); err == nil || backend() != pid {
		t.Error("a usable connection was closed")
	}
	for _, giveUp := range []func(){
		func() { _, _ = db.Exec(t.Context(), sleep, 60.0) },
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			watch.Go(func() {
				defer cancel()
				for found, err := false, error(nil); !found && err == nil; { // until the server runs the statement
					var at int
					found, err = other.QueryRow(ctx, sleeping, []any{pid}, &at)
				}
			})
			_, _ = db.Stream(ctx, sleep, 60.0)
			cancel()
			watch.Wait()
		},
		func() { stream(10) },
	} {
		giveUp()
		before := pid
		if pid = backend(); pid == before {
			t.Error("the connection is used again")
		}
	}
}

func TestStreamGoesSilent(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := open(t, pgdb.Options{URL: url, MaxConns: 1, StatementTimeout: 500 * time.Millisecond})
	// The rows before fill the connection's buffers.
	late := pgdb.Statement{Name: "late", SQL: `
		SELECT repeat('x', 1000), CASE WHEN n = 5000 THEN pg_sleep(60) END FROM generate_series(1, 5000) n`}
	rows, err := db.Stream(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	wantTooLong(t, rows.Err())
	if n == 0 || n == 5000 {
		t.Errorf("%d rows", n)
	}
	rows.Close()
	if _, err := db.Exec(t.Context(), selectOne); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSerializationIsRetried runs two SERIALIZABLE transactions that read each other's writes, so the server rolls
// back one.
func TestSerializationIsRetried(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_transaction_isolation", "serializable")})
	statement := func(sql string) pgdb.Statement { return pgdb.Statement{Name: "test", SQL: sql} }
	if _, err := db.Exec(t.Context(), statement(`CREATE TABLE t (n bigint)`)); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup // waits until both first tries have read
	both.Add(2)
	errs := make(chan error, 2)
	tries := make(chan int, 2)
	for range 2 {
		go func() {
			try := 0
			errs <- db.Tx(t.Context(), "count", func(tx *pgdb.Tx) error {
				try++
				var n int64
				if _, err := tx.QueryRow(statement(`SELECT count(*) FROM t`), nil, &n); err != nil {
					return err
				}
				if try == 1 {
					both.Done()
					both.Wait()
				}
				_, err := tx.Exec(statement(`INSERT INTO t VALUES ($1::bigint)`), n)
				return err
			})
			tries <- try
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := <-tries + <-tries; n != 3 {
		t.Errorf("%d tries, want 3", n)
	}
	var distinct int
	if _, err := db.QueryRow(t.Context(), statement(`SELECT count(DISTINCT n) FROM t`), nil, &distinct); err != nil || distinct != 2 {
		t.Errorf("%d numbers, %v", distinct, err)
	}
}

func TestFaultUndoes(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	var failing string
	db := open(t, pgdb.Options{URL: url, Fault: func(point string) error {
		if point == failing {
			return &pgconn.PgError{Code: "53100"}
		}
		return nil
	}})
	insert := pgdb.Statement{Name: "insert", SQL: `INSERT INTO t VALUES (1)`}
	count := pgdb.Statement{Name: "count", SQL: `SELECT count(*) FROM t`}
	if _, err := db.Exec(t.Context(), pgdb.Statement{Name: "create", SQL: `CREATE TABLE t (n bigint)`}); err != nil {
		t.Fatal(err)
	}
	for _, failing = range []string{"insert", "commit"} {
		_, err := db.Exec(t.Context(), insert)
		wantCode(t, err, errcode.Unavailable)
		wantCode(t, db.Tx(t.Context(), "tx", func(tx *pgdb.Tx) error {
			_, err := tx.Exec(insert)
			return err
		}), errcode.Unavailable)
	}
	failing = ""
	var n int
	if _, err := db.QueryRow(t.Context(), count, nil, &n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	statement := func(sql string) pgdb.Statement { return pgdb.Statement{Name: "test", SQL: sql} }
	insert := statement(`INSERT INTO t VALUES ($1::bigint)`)
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)})
			ctx := t.Context()
			if _, err := db.Exec(ctx, statement(`CREATE TEMP TABLE t (n bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED CHECK (n > 0))`)); err != nil {
				t.Fatal(err)
			}
			want := func(n int) {
				t.Helper()
				var sum int
				if _, err := db.QueryRow(ctx, statement(`SELECT coalesce(sum(n), 0)::bigint FROM t`), nil, &sum); err != nil || sum != n {
					t.Errorf("sum %d, %v; want %d", sum, err, n)
				}
			}
			if err := db.Tx(ctx, "tx", func(tx *pgdb.Tx) error {
				var sum int
				err := errors.Join(tx.Queue(insert, int64(1)), tx.Queue(insert, int64(2)))
				if _, queryErr := tx.QueryRow(statement(`SELECT sum(n)::bigint FROM t`), nil, &sum); queryErr != nil || sum != 3 {
					t.Errorf("sum in the transaction %d, %v", sum, queryErr)
				}
				return errors.Join(err, tx.Queue(insert, int64(4)))
			}); err != nil {
				t.Fatal(err)
			}
			want(7)
			for name, fn := range map[string]func(tx *pgdb.Tx) error{
				"a statement refused":    func(tx *pgdb.Tx) error { return errors.Join(tx.Queue(insert, int64(8)), tx.Queue(insert, int64(-1))) },
				"the commit refused":     func(tx *pgdb.Tx) error { return errors.Join(tx.Queue(insert, int64(8)), tx.Queue(insert, int64(1))) },
				"given up by the caller": func(tx *pgdb.Tx) error { return errors.Join(tx.Queue(insert, int64(8)), errors.New("no")) },
				"a later statement refused": func(tx *pgdb.Tx) error {
					_, err := tx.Exec(insert, int64(-1))
					return errors.Join(tx.Queue(insert, int64(8)), err)
				},
			} {
				if err := db.Tx(ctx, "tx", fn); err == nil {
					t.Errorf("%s: no error", name)
				}
				want(7)
			}
			if _, err := db.Exec(ctx, statement(`DROP TABLE t`)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTxPassesCodedErrors(t *testing.T) {
	t.Parallel()
	db := open(t, pgdb.Options{URL: testdb.Postgres(t)})
	refusal := errcode.New(errcode.Quota, "full")
	err := db.Tx(t.Context(), "tx", func(*pgdb.Tx) error { return refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}

func TestServerGoesAndComes(t *testing.T) {
	t.Parallel()
	server := testdb.DurablePostgres(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	const conns = 4
	db := open(t, pgdb.Options{URL: server.URL(), MaxConns: conns, ConnectTimeout: 5 * time.Second})
	for _, end := range []func() error{server.Stop, server.Kill, server.Stop} {
		_, err := db.Exec(t.Context(), selectOne)
		wantCode(t, err, errcode.Unavailable)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		// The pool must not return connections that predate the restart.
		for range conns {
			if _, err := db.Exec(t.Context(), selectOne); err != nil {
				t.Errorf("the server is back: %v", err)
			}
		}
		held := make([]*pgdb.Rows, conns)
		for i := range held {
			var err error
			if held[i], err = db.Stream(t.Context(), selectOne); err != nil {
				t.Fatal(err)
			}
		}
		for _, rows := range held {
			for rows.Next() { // the connection is free after the last row
			}
			rows.Close()
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	url := testdb.Postgres(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db, err := pgdb.Open(t.Context(), pgdb.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), selectOne); err != nil {
		t.Fatal(err)
	}
	db.Close()
}
