package replica

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
)

var discard = slog.New(slog.DiscardHandler)

type world struct {
	t      testing.TB
	root   string
	folder string
	lives  int
	dbs    map[string]*sqlitedb.DB
	target *faultyTarget
	clock  *clock.Manual
	r      *Replica
	toys   *toys // nil without bodies
	edit   func(*Options)
	fault  func(string) error

	states  map[Position]string // the database's content at each captured position
	checked map[string]bool
	same    map[Position]bool // restored since an object was deleted or merged
	stats   struct{ restored, gaps, restarts, runs int }
}

var names = []string{"one.db", "two.db"}

var (
	testKey   = SigningKey{ed25519.NewKeyFromSeed(bytes.Repeat([]byte("k"), ed25519.SeedSize))} // the same in all processes
	testTrust = Trust{Signers: []Signer{{Key: testKey.Public()}}}
)

// pointOf reads a point as a server that trusts testKey.
func pointOf(t Target, name string) (p Point, err error) {
	r, err := openReader(context.Background(), t, testNames, testTrust)
	if err != nil {
		return p, err
	}
	return r.point(context.Background(), name)
}

var testNames = Names{Databases: names, Also: []string{"secrets.toml"}}

func newWorld(t testing.TB, root string, edit func(*Options)) *world {
	w := makeWorld(t, root, edit)
	w.open()
	return w
}

func newToyWorld(t testing.TB, root string, edit func(*Options)) *world {
	w := makeWorld(t, root, edit)
	w.toys = newToys(w)
	w.open()
	return w
}

func makeWorld(t testing.TB, root string, edit func(*Options)) *world {
	w := &world{
		t: t, root: root, edit: edit, clock: clock.NewManual(time.Unix(1_700_000_000, 0)),
		target: &faultyTarget{Target: Folder(filepath.Join(root, "target"))},
		states: map[Position]string{}, checked: map[string]bool{}, same: map[Position]bool{},
		dbs: map[string]*sqlitedb.DB{},
	}
	w.folder = w.newFolder()
	return w
}

func (w *world) newFolder() string {
	w.lives++
	folder := filepath.Join(w.root, fmt.Sprintf("life-%d", w.lives))
	w.must(os.MkdirAll(folder, 0o700))
	return folder
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() {
	w.t.Helper()
	for _, name := range names {
		db, err := sqlitedb.Open(context.Background(), sqlitedb.Options{Path: w.path(name), Readers: 4})
		w.must(err)
		w.dbs[name] = db
		w.must(db.WriteAlone(context.Background(), "create", func(c *sqlite.Conn) error {
			return sqlitex.ExecuteScript(c, `CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, body BLOB);
				CREATE INDEX IF NOT EXISTS i ON t (body); CREATE TABLE IF NOT EXISTS toys (id INTEGER PRIMARY KEY, body TEXT)`, nil)
		}))
	}
	opts := Options{
		Server: "server-1", Key: testKey, Files: w.dbs, Target: w.target, Spool: filepath.Join(w.folder, "spool"),
		Clock: w.clock.Now, Log: discard, Interval: time.Millisecond,
		Fault: func(point string) error {
			if w.fault != nil {
				return w.fault(point)
			}
			return nil
		},
	}
	if w.edit != nil {
		w.edit(&opts)
	}
	if w.toys != nil {
		opts.Bodies = map[string]Bodies{toyService: w.toys.bodies()}
	}
	w.r = New(opts)
	w.r.isWatching, w.r.bodies.parallel = true, 1
	w.r.bodies.watch()
	for _, s := range w.r.sources {
		s.frames, s.least = 30, 60_000
	}
}

func (w *world) path(name string) string { return filepath.Join(w.folder, name) }

func (w *world) shutDown() {
	w.t.Helper()
	if w.toys != nil {
		for _, t := range w.toys.open {
			w.toys.end(t, false)
		}
		w.toys.open = nil
	}
	_ = w.r.Close(context.Background()) // the target may fail
	w.note()
	w.check()
	w.close()
}

// close stops the databases, and the replica without its last steps.
func (w *world) close() {
	w.t.Helper()
	for _, s := range w.r.sources {
		w.must(s.stop())
	}
	for _, db := range w.dbs {
		w.must(db.Close())
	}
}

// goBack continues with a copy of the folder that was made while the server was stopped.
func (w *world) goBack(copied string) {
	w.t.Helper()
	w.shutDown()
	w.forgetUnsent()
	w.folder = w.newFolder()
	w.must(os.CopyFS(w.folder, os.DirFS(copied)))
	w.open()
}

// forgetUnsent forgets places without a file in the target: the copy may reuse their numbers.
func (w *world) forgetUnsent() {
	files := filesOf(w.objects())
	for position := range w.states {
		sent := false
		for key, of := range files {
			for _, f := range of.sorted {
				sent = sent || strings.HasSuffix(strings.TrimSuffix(key, encrypted), "/"+position.Run) && f.to >= position.TXID
			}
		}
		if !sent {
			delete(w.states, position)
		}
	}
}

// kill continues with the files on disk, as after a killed process.
func (w *world) kill() {
	w.t.Helper()
	if w.toys != nil {
		w.toys.open = nil // no process will commit them
	}
	before := w.folder
	w.folder = w.newFolder()
	w.must(os.CopyFS(w.folder, os.DirFS(before)))
	for _, name := range names { // SQLite reads the WAL again
		if err := os.Remove(w.path(name) + "-shm"); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
	after := w.folder
	w.folder = before
	w.close()
	w.must(os.RemoveAll(before))
	w.folder = after
	w.open()
}

func (w *world) other(name string, fn func(c *sqlite.Conn) error) error {
	w.t.Helper()
	c, err := sqlite.OpenConn(w.path(name), sqlite.OpenReadWrite)
	w.must(err)
	c.SetBusyTimeout(0)
	err = fn(c)
	w.must(c.Close())
	return err
}

func (w *world) capture() error {
	err := w.r.capture(context.Background())
	w.note()
	return err
}

func (w *world) note() {
	for _, s := range w.r.sources {
		state, _ := s.pending()
		position := state.Position
		if _, known := w.states[position]; !known && state.Run != "" {
			w.states[position] = w.dump(s.name)
		}
	}
}

func (w *world) ship() error {
	w.t.Helper()
	err := w.r.ship(context.Background())
	w.check()
	return err
}

func (w *world) checkAgain() {
	w.t.Helper()
	w.checked, w.same = map[string]bool{}, map[Position]bool{}
	w.check()
}

func (w *world) check() {
	w.t.Helper()
	points, err := listPoints(context.Background(), w.target.Target)
	w.must(err)
	for _, listed := range points {
		if w.checked[listed.name] {
			continue
		}
		w.checked[listed.name] = true
		w.restoreAndCompare(listed)
	}
}

func (w *world) restoreAndCompare(listed listedPoint) {
	w.t.Helper()
	p, err := pointOf(w.target.Target, listed.name)
	w.must(err)
	into := filepath.Join(w.root, "restored")
	w.must(os.MkdirAll(into, 0o700))
	defer os.RemoveAll(into)
	folder, err := durable.OpenFolder(into)
	w.must(err)
	defer folder.Close()
	for name, position := range p.Files {
		path := filepath.Join(into, name)
		if w.same[position] && (w.toys == nil || name != "one.db") {
			continue
		}
		w.same[position] = true
		r := Restoring{Target: w.target.Target, Known: testNames, Trust: testTrust, Into: into, Identities: w.r.keys.identities}
		if err := r.restore(context.Background(), p.keys(r.Identities), position, folder, name); err != nil {
			w.t.Fatalf("point %d: %v", p.Number, err)
		}
		want, known := w.states[position]
		if !known {
			w.t.Fatalf("point %d has %v of %s, which was never captured", p.Number, position, name)
		}
		if w.toys != nil && name == "one.db" {
			w.must(w.toys.checkPoint(path, listed.name, p))
		}
		if got := dumpFile(w.t, path); got != want {
			w.t.Fatalf("point %d: %s differs from what it was:\n%.300s\nwas:\n%.300s", p.Number, name, got, want)
		}
		w.stats.restored++
	}
}

func (w *world) dump(name string) (text string) {
	w.t.Helper()
	w.must(w.dbs[name].Read(context.Background(), "dump", func(c *sqlite.Conn) (err error) {
		text, err = dump(c)
		return err
	}))
	return text
}

func dumpFile(t testing.TB, path string) string {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := dump(c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func dump(c *sqlite.Conn) (string, error) {
	var text bytes.Buffer
	var tables []string
	err := sqlitedb.ForEach(c, `SELECT name, type, sql FROM sqlite_schema ORDER BY name`, func(s *sqlite.Stmt) error {
		fmt.Fprintln(&text, s.ColumnText(2))
		if s.ColumnText(1) == "table" {
			tables = append(tables, s.ColumnText(0))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		err := sqlitedb.ForEach(c, `SELECT id, length(body), hex(substr(body, 1, 16)), sum(unicode(substr(body, 5))) FROM `+table+` GROUP BY id ORDER BY id`,
			func(s *sqlite.Stmt) error {
				fmt.Fprintln(&text, table, s.ColumnText(0), s.ColumnText(1), s.ColumnText(2), s.ColumnText(3))
				return nil
			})
		if err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

const (
	targetWorks = iota
	targetFails
	targetLosesResponse // performs the operation, but returns an error
	targetHangs
	targetIsFull // refuses a write halfway
)

type faultyTarget struct {
	Target

	mu   sync.Mutex
	mode int
}

var errTarget = errors.New("the target fails")

func (f *faultyTarget) set(mode int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

func (f *faultyTarget) begin(ctx context.Context) (mode int, err error) {
	f.mu.Lock()
	mode = f.mode
	f.mu.Unlock()
	switch mode {
	case targetFails:
		return mode, errTarget
	case targetHangs:
		return mode, hang(ctx)
	}
	return mode, nil
}

func (f *faultyTarget) Put(ctx context.Context, name string, body io.Reader) error {
	mode, err := f.begin(ctx)
	if err != nil {
		return err
	}
	if mode == targetIsFull {
		_, _ = io.CopyN(io.Discard, body, 100)
		return errTarget
	}
	err = f.Target.Put(ctx, name, body)
	if mode == targetLosesResponse && err == nil {
		return errTarget
	}
	return err
}

func hang(ctx context.Context) error {
	clock.Sleep(ctx, 10*time.Millisecond)
	return context.DeadlineExceeded
}

func (f *faultyTarget) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	return f.Target.Get(ctx, name)
}

func (f *faultyTarget) Walk(ctx context.Context, prefix string, fn func(string) error) error {
	if _, err := f.begin(ctx); err != nil {
		return err
	}
	return f.Target.Walk(ctx, prefix, fn)
}

func (w *world) exec(name, sql string, args ...any) error {
	return w.dbs[name].Write(context.Background(), "exec", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sql, args...) })
}

const insert = `INSERT OR REPLACE INTO t (id, body)
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT abs(random() % 5000), randomblob(1 + abs(random() % ?2)) FROM n`

// maintain also checks that all remaining points can be restored.
func (w *world) maintain() {
	w.t.Helper()
	before := len(w.objects())
	_ = w.r.maintain(context.Background()) // the target may fail
	if len(w.objects()) != before {
		w.checkAgain()
	}
}

func (w *world) objects() []string {
	objects, err := w.target.Target.List(context.Background(), "")
	w.must(err)
	return objects
}
