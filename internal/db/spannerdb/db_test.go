//test:unraced compiling gRPC for the race detector takes a minute
//test:check most tests need the Spanner emulator

package spannerdb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

const accounts = `
CREATE TABLE IF NOT EXISTS accounts (
	id     STRING(64) NOT NULL,
	amount INT64      NOT NULL,
) PRIMARY KEY (id);

INSERT OR UPDATE INTO accounts (id, amount) VALUES ('a', 0), ('b', 0);
`

const more = `
CREATE TABLE IF NOT EXISTS notes (
	id STRING(64) NOT NULL,
) PRIMARY KEY (id);
`

func set(t *testing.T, files ...string) migrate.Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for i, text := range files {
		fsys["m/000"+string(rune('1'+i))+"_change.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := migrate.Load("test", fsys, "m")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, opts spannerdb.Options) *spannerdb.DB {
	t.Helper()
	db, err := spannerdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func options(t *testing.T) spannerdb.Options {
	t.Helper()
	emulator, database := spannertest.Database(t)
	opts := spannerdb.Options{EmulatorHost: emulator, Database: database}
	if _, err := open(t, opts).Migrate(t.Context(), set(t, accounts)); err != nil {
		t.Fatal(err)
	}
	return opts
}

var (
	readAll = spannerdb.Statement{Name: "test.read", SQL: `SELECT id, amount FROM accounts ORDER BY id`}
	readOne = spannerdb.Statement{Name: "test.read_one", SQL: `SELECT amount FROM accounts WHERE id = @id`}
	add     = spannerdb.Statement{Name: "test.add", SQL: `UPDATE accounts SET amount = amount + @by WHERE id = @id`}
)

func amounts(t *testing.T, db *spannerdb.DB) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := db.ForEach(t.Context(), readAll, nil, func(r *spanner.Row) error {
		var id string
		var amount int64
		err := r.Columns(&id, &amount)
		all[id] = amount
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func change(ctx context.Context, db *spannerdb.DB, id string, by int64) error {
	return db.Write(ctx, "test.change", func(tx *spannerdb.Tx) error {
		var amount int64
		if err := tx.ForEach(readOne, spannerdb.Params{"id": id}, func(r *spanner.Row) error { return r.Columns(&amount) }); err != nil {
			return err
		}
		tx.Predict(2)
		return tx.Buffer(spanner.Update("accounts", []string{"id", "amount"}, []any{id, amount + by}))
	})
}

// TestConcurrentWrites lets two clients change a row that they read. The emulator aborts all transactions but the
// first, and they are retried.
func TestConcurrentWrites(t *testing.T) {
	t.Parallel()
	opts := options(t)
	const writers, each = 8, 5
	var wg sync.WaitGroup
	clients := []*spannerdb.DB{open(t, opts), open(t, opts)}
	for i := range writers {
		wg.Go(func() {
			for range each {
				if err := change(t.Context(), clients[i%2], "a", 1); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := amounts(t, clients[0])["a"]; got != writers*each {
		t.Errorf("%d of %d writes are there", got, writers*each)
	}
}

func TestWriteUndone(t *testing.T) {
	t.Parallel()
	opts := options(t)
	var steps []string
	opts.Observe = func(name string, _ time.Duration, err error) {
		if err != nil {
			steps = append(steps, name)
		}
	}
	db := open(t, opts)
	refused := errcode.New(errcode.Quota, "no")
	err := db.Write(t.Context(), "test.refused", func(tx *spannerdb.Tx) error {
		if err := tx.Exec(spannerdb.Change{Statement: add, Params: spannerdb.Params{"id": "a", "by": 5}, Rows: 1}); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("a refusal: %v", err)
	}
	err = db.Write(t.Context(), "test.rows", func(tx *spannerdb.Tx) error {
		return tx.Exec(
			spannerdb.Change{Statement: add, Params: spannerdb.Params{"id": "a", "by": 5}, Rows: 1},
			spannerdb.Change{Statement: add, Params: spannerdb.Params{"id": "nobody", "by": 5}, Rows: 1},
		)
	})
	if !errcode.Is(err, errcode.Internal) || !strings.Contains(err.Error(), "changed 0 rows, not 1") {
		t.Errorf("too few rows: %v", err)
	}
	if got := amounts(t, db); got["a"] != 0 || got["b"] != 0 {
		t.Errorf("the amount is %v", got)
	}
	if got := strings.Join(steps, " "); got != "test.refused test.rows" {
		t.Errorf("observed errors of %q", got)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	opts := options(t)
	down := errcode.New(errcode.Unavailable, "down")
	var at string
	opts.Fault = func(point string) error {
		if point == at {
			return down
		}
		return nil
	}
	db := open(t, opts)
	for _, at = range []string{"test.read_one", "commit"} {
		if err := change(t.Context(), db, "a", 1); !errors.Is(err, down) {
			t.Errorf("a fault at %s: %v", at, err)
		}
	}
	for _, at = range []string{"test.add"} {
		err := db.Write(t.Context(), "test.exec", func(tx *spannerdb.Tx) error {
			return tx.Exec(spannerdb.Change{Statement: add, Params: spannerdb.Params{"id": "a", "by": 1}, Rows: 1})
		})
		if !errors.Is(err, down) {
			t.Errorf("a fault at %s: %v", at, err)
		}
	}
	at = "test.read"
	if err := db.ForEach(t.Context(), readAll, nil, func(*spanner.Row) error { return nil }); !errors.Is(err, down) {
		t.Errorf("a fault of a read: %v", err)
	}
	if _, err := db.Stream(t.Context(), readAll, nil); !errors.Is(err, down) {
		t.Errorf("a fault of a stream: %v", err)
	}
	at = ""
	if got := amounts(t, db)["a"]; got != 0 {
		t.Errorf("a has %d", got)
	}
	if active, _, _ := db.Connections(); active != 0 {
		t.Errorf("%d transactions are open at the end", active)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.MaxTransactions, opts.Wait = 2, 50*time.Millisecond
	db := open(t, opts)
	var held []*spannerdb.Rows
	for range 2 {
		rows, err := db.Stream(t.Context(), readAll, nil)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, rows)
	}
	if active, _, most := db.Connections(); active != 2 || most != 2 {
		t.Errorf("%d of %d are open", active, most)
	}
	if err := change(t.Context(), db, "a", 1); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("one too many: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := change(ended, db, "a", 1); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a canceled caller: %v", err)
	}
	if n, total := db.Waits(); n != 2 || total < opts.Wait {
		t.Errorf("%d have waited %v", n, total)
	}
	held[0].Close()
	held[0].Close()
	if err := change(t.Context(), db, "a", 1); err != nil {
		t.Errorf("after a slot is free: %v", err)
	}
	held[1].Close()
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	db := open(t, options(t))
	rows, err := db.Stream(t.Context(), readAll, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := change(t.Context(), db, "b", 7); err != nil {
		t.Fatal(err)
	}
	err = rows.Beside(readOne, spannerdb.Params{"id": "b"}, func(r *spanner.Row) error {
		var amount int64
		err := r.Columns(&amount)
		if amount != 0 {
			t.Errorf("beside the stream b has %d", amount)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	var ids []string
	for {
		row, err := rows.Next()
		if err != nil {
			t.Fatal(err)
		}
		if row == nil {
			break
		}
		var id string
		var amount int64
		if err := row.Columns(&id, &amount); err != nil || amount != 0 {
			t.Errorf("%s has %d, %v", id, amount, err)
		}
		ids = append(ids, id)
	}
	if strings.Join(ids, "") != "ab" {
		t.Errorf("rows: %q", ids)
	}
	if got := amounts(t, db)["b"]; got != 7 {
		t.Errorf("b has %d", got)
	}
}

func TestMutations(t *testing.T) {
	t.Parallel()
	opts := options(t)
	var told []any
	opts.Mutations = func(name string, predicted, counted int) { told = append(told, name, predicted, counted) }
	db := open(t, opts)
	if err := change(t.Context(), db, "a", 1); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 || told[0] != "test.change" || told[1] != 2 || told[2] != 0 {
		t.Errorf("reported %v", told)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	db := open(t, spannerdb.Options{
		Database: "projects/p/instances/ii/databases/dd", EmulatorHost: "127.0.0.1:1", Timeout: 100 * time.Millisecond,
	})
	if err := db.ForEach(t.Context(), readAll, nil, func(*spanner.Row) error { return nil }); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("read: %v", err)
	}
	if _, err := db.Stream(t.Context(), readAll, nil); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("stream: %v", err)
	}
	if err := change(t.Context(), db, "a", 1); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("write: %v", err)
	}
	if _, err := db.Pending(t.Context(), set(t, accounts)); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("pending: %v", err)
	}
}

// TestLostSession restarts the emulator empty, as if the database was restored under its name. The first request of
// each kind fails, and the next succeeds.
func TestLostSession(t *testing.T) {
	t.Parallel()
	emulator := testdb.OwnSpanner(t)
	opts := spannerdb.Options{EmulatorHost: emulator.Host(), Database: spannertest.NewName()}
	db := open(t, opts)
	anew := func() {
		t.Helper()
		if _, err := open(t, opts).Migrate(t.Context(), set(t, accounts)); err != nil {
			t.Fatal(err)
		}
	}
	anew()
	for name, ask := range map[string]func() error{
		"read":  func() error { return db.ForEach(t.Context(), readAll, nil, func(*spanner.Row) error { return nil }) },
		"write": func() error { return change(t.Context(), db, "a", 1) },
		"stream": func() error {
			rows, err := db.Stream(t.Context(), readAll, nil)
			if err == nil {
				rows.Close()
			}
			return err
		},
	} {
		if err := ask(); err != nil {
			t.Fatalf("%s, before: %v", name, err)
		}
		if err := emulator.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := emulator.Start(); err != nil {
			t.Fatal(err)
		}
		anew()
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() {
				if err := ask(); err != nil && !errcode.Is(err, errcode.Unavailable) {
					t.Errorf("%s, of several: %v", name, err)
				}
			})
		}
		asking.Wait()
		if err := ask(); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	opts := spannerdb.Options{EmulatorHost: emulator, Database: database}
	db, both := open(t, opts), set(t, accounts, more)
	if _, err := db.Pending(t.Context(), both); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("pending without a database: %v", err)
	}
	if applied, err := db.Migrate(t.Context(), set(t, accounts)); err != nil || len(applied) != 1 {
		t.Fatalf("the first: %v, %v", applied, err)
	}
	if err := change(t.Context(), db, "a", 3); err != nil {
		t.Fatal(err)
	}
	pending, err := db.Pending(t.Context(), both)
	if err != nil || len(pending) != 1 || pending[0].Version != 2 {
		t.Errorf("pending: %v, %v", pending, err)
	}
	var wg sync.WaitGroup
	var fresh [3]int
	for i := range fresh {
		wg.Go(func() {
			applied, err := open(t, opts).Migrate(t.Context(), both)
			if fresh[i] = len(applied); err != nil {
				t.Errorf("one of several: %v", err)
			}
		})
	}
	wg.Wait()
	if sum := fresh[0] + fresh[1] + fresh[2]; sum != 1 {
		t.Errorf("%d processes applied the second", sum)
	}
	if got := amounts(t, db); got["a"] != 3 {
		t.Errorf("at the end: %v", got)
	}
	if _, err := db.Migrate(t.Context(), set(t, accounts+"\nCREATE INDEX edited ON accounts (id);\n")); !errors.Is(err, migrate.ErrDevelopment) {
		t.Errorf("an edited migration: %v", err)
	}
}

// TestMigrateMeetsAnEarlierAnswer checks that Migrate ignores the failure of the session that the driver requested
// before the emulator's database existed.
func TestMigrateMeetsAnEarlierAnswer(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	asked, reading := make(chan struct{}), make(chan struct{})
	var ask, read sync.Once
	wire := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/CreateInstance") {
			<-asked
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		if strings.HasSuffix(method, "/CreateSession") {
			ask.Do(func() {
				close(asked)
				<-reading
			})
		}
		return err
	}
	db := open(t, spannerdb.Options{
		EmulatorHost: emulator, Database: database,
		Client: []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(wire))},
		Fault: func(point string) error {
			if point == "migrate.ledger" { // before waiting for the session
				read.Do(func() { close(reading) })
			}
			return nil
		},
	})
	if applied, err := db.Migrate(t.Context(), set(t, accounts)); err != nil || len(applied) != 1 {
		t.Errorf("%v, %v", applied, err)
	}
}

// TestMigrateInterrupted checks that a migration which changed only the schema is applied again.
func TestMigrateInterrupted(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Database(t)
	opts := spannerdb.Options{EmulatorHost: emulator, Database: database}
	broken := opts
	broken.Fault = func(point string) error {
		if point == "commit" {
			return errcode.New(errcode.Unavailable, "killed")
		}
		return nil
	}
	if _, err := open(t, broken).Migrate(t.Context(), set(t, accounts)); !errcode.Is(err, errcode.Unavailable) {
		t.Fatalf("interrupted: %v", err)
	}
	db := open(t, opts)
	if len(amounts(t, db)) != 0 {
		t.Error("an interrupted migration changed data")
	}
	if applied, err := db.Migrate(t.Context(), set(t, accounts)); err != nil || len(applied) != 1 {
		t.Errorf("applied again: %v, %v", applied, err)
	}
	if len(amounts(t, db)) != 2 {
		t.Error("the migration did not change the data")
	}
}
