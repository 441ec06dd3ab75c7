package sqlitedb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, opts sqlitedb.Options) *sqlitedb.DB {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "test.db")
	}
	db, err := sqlitedb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func write(db *sqlitedb.DB, sql string, args ...any) error {
	return db.Write(context.Background(), "test", func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, sql, &sqlitex.ExecOptions{Args: args})
	})
}

func count(t *testing.T, db *sqlitedb.DB) (n int64) {
	t.Helper()
	err := db.Read(t.Context(), "count", func(c *sqlite.Conn) (err error) {
		n, err = sqlitex.ResultInt64(c.Prep(`SELECT count(*) FROM t`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hold blocks the writer until release is called, so that writes in between become a group.
func hold(t *testing.T, db *sqlitedb.DB) (release func()) {
	t.Helper()
	started, released, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	start := sync.OnceFunc(func() { close(started) }) // the function may run twice
	go func() {
		done <- db.Write(context.Background(), "hold", func(*sqlite.Conn) error {
			start()
			<-released
			return nil
		})
	}()
	<-started
	return func() { close(released); must(t, <-done) }
}

func await(db *sqlitedb.DB, steps int) {
	for db.Queued() < steps {
		runtime.Gosched()
	}
}

func TestStepsOfAGroupAreIndependent(t *testing.T) {
	t.Parallel()
	var commits atomic.Int32
	db := open(t, sqlitedb.Options{Fault: func(point string) error {
		if point == "commit" {
			commits.Add(1)
		}
		return nil
	}})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	commits.Store(0)

	boom := errors.New("boom")
	release := hold(t, db)
	var wg sync.WaitGroup
	errs := make([]error, 30)
	for i := range errs {
		wg.Go(func() {
			errs[i] = db.Write(context.Background(), "put", func(c *sqlite.Conn) error {
				must(t, sqlitex.Execute(c, `INSERT INTO t VALUES (?)`, &sqlitex.ExecOptions{Args: []any{i}}))
				switch i % 3 {
				case 1:
					return boom
				case 2:
					panic("a bug in a step")
				}
				return nil
			})
		})
	}
	await(db, len(errs))
	release()
	wg.Wait()
	for i, err := range errs {
		switch {
		case i%3 == 0 && err != nil:
			t.Errorf("step %d: %v", i, err)
		case i%3 == 1 && !errors.Is(err, boom):
			t.Errorf("step %d: %v, want boom", i, err)
		case i%3 == 2 && !errcode.Is(err, errcode.Internal):
			t.Errorf("step %d: %v, want internal", i, err)
		}
	}
	if n := count(t, db); n != 10 {
		t.Errorf("%d rows, want the 10 of the steps that succeeded", n)
	}
	if n := commits.Load(); n > 10 { // one, or more on a machine slower than groupTime
		t.Errorf("%d commits for 31 waiting steps", n)
	}
}

// TestWriteChecked checks that a write without a savepoint that fails halfway is rolled back without the rest of its
// group.
func TestWriteChecked(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	boom, refused := errors.New("boom"), errors.New("refused")
	release := hold(t, db)
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		insert := func(c *sqlite.Conn) error {
			return sqlitex.Execute(c, `INSERT INTO t VALUES (?)`, &sqlitex.ExecOptions{Args: []any{i}})
		}
		wg.Go(func() {
			if i%5 == 4 {
				errs[i] = db.Write(context.Background(), "put", insert)
				return
			}
			errs[i] = db.WriteChecked(context.Background(), "put", func(*sqlite.Conn) error {
				if i%5 == 1 {
					return refused
				}
				return nil
			}, func(c *sqlite.Conn) error {
				err := insert(c)
				switch i {
				case 22, 32:
					return boom
				case 43:
					panic("a bug in a step")
				}
				return err
			})
		})
	}
	await(db, len(errs))
	release()
	wg.Wait()
	want := map[int]error{22: boom, 32: boom}
	rows := int64(0)
	for i, err := range errs {
		switch {
		case i == 43:
			if !errcode.Is(err, errcode.Internal) {
				t.Errorf("step %d: %v, want internal", i, err)
			}
			continue
		case i%5 == 1:
			want[i] = refused
		case want[i] == nil:
			rows++
		}
		if !errors.Is(err, want[i]) {
			t.Errorf("step %d: %v, want %v", i, err, want[i])
		}
	}
	if n := count(t, db); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
}

func TestGroupsAreObserved(t *testing.T) {
	t.Parallel()
	var groups []sqlitedb.Group // written by the writer, read after a write returned
	var fail atomic.Bool
	db := open(t, sqlitedb.Options{
		ObserveGroup: func(g sqlitedb.Group) { groups = append(groups, g) },
		Fault: func(point string) error {
			if point == "begin" && fail.Load() {
				return errcode.New(errcode.Unavailable, "no group today")
			}
			return nil
		},
	})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	if len(groups) != 1 || groups[0].Steps != 1 || groups[0].Commit <= 0 {
		t.Errorf("a write alone: %+v", groups)
	}
	for try := 0; len(groups) == 1 || len(groups) > 3; try++ {
		if try == 20 {
			t.Fatalf("six writes, five of which waited together: %+v", groups[1:])
		}
		groups = groups[:1]
		release := hold(t, db)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { must(t, write(db, `INSERT INTO t VALUES (NULL)`)) })
		}
		for db.Queued() < 5 {
			runtime.Gosched() // until all writes queue behind the blocking write
		}
		release()
		wg.Wait()
	}
	total := 0
	for _, g := range groups {
		total += g.Steps
	}
	if last := groups[len(groups)-1]; total != 7 || last.Commit <= 0 || last.Wait < 0 {
		t.Errorf("%d steps in %+v", total, groups)
	}
	fail.Store(true)
	if err := write(db, `INSERT INTO t VALUES (NULL)`); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a group that cannot begin: %v", err)
	}
	if last := groups[len(groups)-1]; last.Steps != 1 || last.Commit != 0 {
		t.Errorf("a group that cannot begin: %+v", last)
	}
}

// TestFirstStepFails checks that only the first write's changes are rolled back, although it has no savepoint.
func TestFirstStepFails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"an error": func() error { return errors.New("boom") },
		"a panic":  func() error { panic("a bug in a step") },
	} {
		grouped := false
		for try := 0; try < 20 && !grouped; try++ { // groupTime may end a group earlier
			grouped = firstStepFails(t, name, end)
		}
		if !grouped {
			t.Errorf("%s: the steps were never one group", name)
		}
	}
}

func firstStepFails(t *testing.T, name string, end func() error) (grouped bool) {
	db := open(t, sqlitedb.Options{ObserveGroup: func(g sqlitedb.Group) { grouped = g.Steps == 4 }})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	started, released := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := db.Write(context.Background(), "first", func(c *sqlite.Conn) error {
			must(t, sqlitex.Execute(c, `INSERT INTO t VALUES (1)`, nil))
			close(started)
			<-released
			return end()
		})
		if err == nil {
			t.Errorf("%s: the step succeeded", name)
		}
	})
	<-started
	for i := range 3 {
		wg.Go(func() { must(t, write(db, `INSERT INTO t VALUES (?)`, i+2)) })
	}
	await(db, 3)
	close(released)
	wg.Wait()
	if n := count(t, db); n != 3 {
		t.Errorf("%s: %d rows, want those of the other three", name, n)
	}
	return grouped
}

func TestWriteAlone(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var ran []string
	groups := map[string]int{}
	db := open(t, sqlitedb.Options{ObserveGroup: func(g sqlitedb.Group) {
		for _, name := range ran {
			groups[name] = g.Steps
		}
		ran = nil
	}})
	must(t, write(db, `CREATE TABLE t (k TEXT PRIMARY KEY)`))
	release := hold(t, db)
	var wg sync.WaitGroup
	for i, s := range []struct {
		name string
		run  func(context.Context, string, func(*sqlite.Conn) error) error
		end  error
	}{{"a", db.Write, nil}, {"alone", db.WriteAlone, nil}, {"fails", db.WriteAlone, boom}, {"b", db.Write, nil}, {"last", db.WriteAlone, nil}} {
		wg.Go(func() {
			err := s.run(context.Background(), s.name, func(c *sqlite.Conn) error {
				ran = append(ran, s.name)
				must(t, sqlitex.Execute(c, `INSERT INTO t VALUES (?)`, &sqlitex.ExecOptions{Args: []any{s.name}}))
				return s.end
			})
			if !errors.Is(err, s.end) {
				t.Errorf("%s: %v, want %v", s.name, err, s.end)
			}
		})
		await(db, i+1)
	}
	release()
	wg.Wait()
	if n := count(t, db); n != 4 {
		t.Errorf("%d rows, want all but that of the step which failed", n)
	}
	for _, name := range []string{"alone", "fails", "last"} {
		if groups[name] != 1 {
			t.Errorf("%s was in a group of %d", name, groups[name])
		}
	}
}

func TestFailedCommitFailsTheWholeGroup(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	db := open(t, sqlitedb.Options{Fault: func(point string) error {
		if point == "commit" && fail.Load() {
			return errcode.New(errcode.Unavailable, "no commit today")
		}
		return nil
	}})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	fail.Store(true)
	if err := write(db, `INSERT INTO t VALUES (1)`); !errcode.Is(err, errcode.Unavailable) {
		t.Fatalf("acknowledged without a commit: %v", err)
	}
	fail.Store(false)
	must(t, write(db, `INSERT INTO t VALUES (2)`))
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows, want only the one after the failure", n)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)`))
	must(t, write(db, `INSERT INTO t (v) VALUES (zeroblob(10))`))
	must(t, write(db, `PRAGMA max_page_count = 10`))
	err := write(db, `INSERT INTO t (v) VALUES (zeroblob(1000000))`)
	if !errcode.Is(err, errcode.Unavailable) {
		t.Fatalf("a full disk is %v", err)
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows", n)
	}
	must(t, write(db, `PRAGMA max_page_count = 100000`))
	must(t, write(db, `INSERT INTO t (v) VALUES (zeroblob(1000000))`))
}

func TestCancelledBeforeItsTurn(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	release := hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- db.Write(ctx, "put", func(c *sqlite.Conn) error {
			return sqlitex.Execute(c, `INSERT INTO t VALUES (1)`, nil)
		})
	}()
	cancel()
	release()
	if err := <-done; !errcode.Is(err, errcode.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled step: %v", err)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("the cancelled step wrote %d rows", n)
	}
}

func TestReadIsOneSnapshot(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	err := db.Read(t.Context(), "twice", func(c *sqlite.Conn) error {
		before, err := sqlitex.ResultInt64(c.Prep(`SELECT count(*) FROM t`))
		must(t, err)
		must(t, write(db, `INSERT INTO t VALUES (1)`))
		after, err := sqlitex.ResultInt64(c.Prep(`SELECT count(*) FROM t`))
		must(t, err)
		if before != after {
			t.Errorf("a read saw %d and then %d rows", before, after)
		}
		return nil
	})
	must(t, err)
}

func TestReadAfterPanic(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*sqlitedb.DB, func(*sqlite.Conn) error) error{
		"Read": func(db *sqlitedb.DB, fn func(*sqlite.Conn) error) error {
			return db.Read(context.Background(), "test", fn)
		},
		"ReadOne": func(db *sqlitedb.DB, fn func(*sqlite.Conn) error) error {
			return db.ReadOne(context.Background(), "test", fn)
		},
	} {
		db := open(t, sqlitedb.Options{})
		must(t, write(db, `CREATE TABLE t (a)`))
		must(t, write(db, `INSERT INTO t VALUES (1), (2)`))
		func() {
			defer func() { _ = recover() }()
			_ = read(db, func(c *sqlite.Conn) error {
				return sqlitedb.ForEach(c, `SELECT a FROM t`, func(*sqlite.Stmt) error { panic("scan") })
			})
		}()
		must(t, write(db, `INSERT INTO t VALUES (3)`))
		if n := count(t, db); n != 3 {
			t.Errorf("%s: %d rows, want 3", name, n)
		}
		if active, _, _ := db.Connections(); active != 0 {
			t.Errorf("%s: %d connections in use", name, active)
		}
	}
}

func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{Readers: 2})
	first, err := db.Snapshot(t.Context())
	must(t, err)
	second, err := db.Snapshot(t.Context())
	must(t, err)
	if active, idle, most := db.Connections(); active != 2 || idle != 0 || most != 2 {
		t.Errorf("%d active, %d idle of %d", active, idle, most)
	}
	wantBusy(t, db)
	if n, total := db.Waits(); n != 1 || total <= 0 { // the read began to wait only after ctx was done
		t.Errorf("%d waits of %v in sum", n, total)
	}
	first.Release()
	third, err := db.Snapshot(t.Context())
	must(t, err)
	second.Release()
	third.Release()
}

func wantBusy(t *testing.T, db *sqlitedb.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := db.Snapshot(ctx); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("one read above the limit: %v", err)
	}
}

func TestReadersThatStream(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	_, _, most := db.Connections()
	var open []*sqlitedb.Snapshot
	take := func() (taken bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		s, err := db.Snapshot(ctx)
		if err == nil {
			open = append(open, s)
		}
		return err == nil
	}
	for take() {
	}
	working := len(open)
	if working < 8 || working >= most && working > 4*runtime.GOMAXPROCS(0) {
		t.Errorf("%d reads at once of %d", working, most)
	}
	for len(open) < most {
		open[len(open)-working].Stream()
		if !take() {
			t.Fatalf("no slot with %d reads that work and %d that stream", working-1, len(open)-working+1)
		}
	}
	for _, s := range open[:most-working] {
		s.Stream()
		s.Stream()
	}
	for _, s := range open {
		s.Release()
	}
	if active, _, _ := db.Connections(); active != 0 {
		t.Errorf("%d active in the end", active)
	}
	open = nil
	for take() {
	}
	if len(open) != working {
		t.Errorf("%d reads at once, before %d", len(open), working)
	}
	for _, s := range open {
		s.Release()
	}
}

func TestCloseServesWhatItAccepted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	must(t, err)
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows", n)
	}
	var wg sync.WaitGroup
	var acknowledged atomic.Int64
	for i := range 200 {
		wg.Go(func() {
			switch err := write(db, `INSERT INTO t VALUES (?)`, i); {
			case err == nil:
				acknowledged.Add(1)
			case !errcode.Is(err, errcode.Unavailable):
				t.Errorf("while closing: %v", err)
			}
		})
	}
	must(t, db.Close())
	wg.Wait()
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the WAL still exists: %v", err)
	}
	if _, err := db.Snapshot(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("a read after Close: %v", err)
	}
	again := open(t, sqlitedb.Options{Path: path})
	if n := count(t, again); n != acknowledged.Load() {
		t.Errorf("%d rows, %d were acknowledged", n, acknowledged.Load())
	}
}

func TestTwoProcessesOnOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	a, b := open(t, sqlitedb.Options{Path: path}), open(t, sqlitedb.Options{Path: path})
	must(t, write(a, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	var wg sync.WaitGroup
	for i := range 40 {
		for p, db := range []*sqlitedb.DB{a, b} {
			wg.Go(func() {
				if err := write(db, `INSERT INTO t VALUES (?)`, 2*i+p); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := count(t, b); n != 80 {
		t.Errorf("%d rows, want 80", n)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{})
	must(t, write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY)`))
	must(t, write(db, `INSERT INTO t VALUES (1), (2)`))
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, db.Backup(t.Context(), path))
	must(t, write(db, `INSERT INTO t VALUES (3)`))
	if n := count(t, open(t, sqlitedb.Options{Path: path})); n != 2 {
		t.Errorf("the copy has %d rows, want 2", n)
	}
	if err := db.Backup(t.Context(), path); err == nil {
		t.Error("a backup over an existing file")
	}
}

func TestOpenWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("not a database "), 1000), 0o600))
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{Path: path})
	if err == nil {
		must(t, db.Close())
	}
	if !errcode.Is(err, errcode.Unavailable) || err.Error() != "the file is not a SQLite database, or is damaged: restore it from a backup" {
		t.Errorf("opened: %v", err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				db, err := sqlitedb.Open(context.Background(), sqlitedb.Options{Path: path})
				if err == nil {
					err = errors.Join(write(db, `CREATE TABLE IF NOT EXISTS t (k)`), db.Close())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, sqlitedb.Options{Path: path})
	fsys := fstest.MapFS{
		"m/0001_create.sql": {Data: []byte(`CREATE TABLE t (k INTEGER PRIMARY KEY); INSERT INTO t VALUES (1);`)},
	}
	load := func() migrate.Set {
		set, err := migrate.Load("service", fsys, "m")
		must(t, err)
		return set
	}
	pending, err := db.Pending(t.Context(), load())
	if err != nil || len(pending) != 1 {
		t.Fatalf("a new file: %v pending, %v", pending, err)
	}

	other := open(t, sqlitedb.Options{Path: path})
	var total atomic.Int32
	var wg sync.WaitGroup
	for _, d := range []*sqlitedb.DB{db, other} {
		wg.Go(func() {
			applied, err := d.Migrate(context.Background(), load())
			if err != nil {
				t.Error(err)
			}
			total.Add(int32(len(applied)))
		})
	}
	wg.Wait()
	if total.Load() != 1 {
		t.Errorf("applied %d times", total.Load())
	}

	fsys["m/0002_more.sql"] = &fstest.MapFile{Data: []byte(`INSERT INTO t VALUES (2)`)}
	fsys["m/0003_broken.sql"] = &fstest.MapFile{Data: []byte(`INSERT INTO nowhere VALUES (1)`)}
	if _, err := db.Migrate(t.Context(), load()); err == nil {
		t.Error("a broken migration was applied")
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows after a failed migration, want 1", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db, err := sqlitedb.Open(b.Context(), sqlitedb.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := write(db, `CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)`); err != nil {
				b.Fatal(err)
			}
			payload := make([]byte, 400)
			b.ReportAllocs()
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					err := db.Write(context.Background(), "put", func(c *sqlite.Conn) error {
						stmt := c.Prep(`INSERT INTO t (v) VALUES (?)`)
						stmt.BindBytes(1, payload)
						_, err := stmt.Step()
						return err
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func TestLedgerOfDevelopment(t *testing.T) {
	t.Parallel()
	db := open(t, sqlitedb.Options{Path: filepath.Join(t.TempDir(), "test.db")})
	must(t, db.Write(t.Context(), "test", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, "CREATE TABLE schema_migrations (room TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, checksum TEXT NOT NULL)")
	}))
	set, err := migrate.Load("service", fstest.MapFS{"m/0001_a.sql": {Data: []byte("CREATE TABLE a (x);")}}, "m")
	must(t, err)
	if _, err := db.Pending(t.Context(), set); !errors.Is(err, migrate.ErrDevelopment) {
		t.Errorf("pending: %v", err)
	}
	if _, err := db.Migrate(t.Context(), set); !errors.Is(err, migrate.ErrDevelopment) {
		t.Errorf("migrate: %v", err)
	}
}
