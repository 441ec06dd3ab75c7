//test:unraced it takes a minute with the race detector, which make soak PART=race uses

package backup

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/obs"
	"holdfast/internal/replica"
	"holdfast/internal/secrets"
	"holdfast/internal/testdb"
)

type moving struct {
	t      testing.TB
	now    *clock.Manual
	server *Server
	s      Settings
	files  map[string]*engine.Database
}

const testSecrets = "[server]\nadmin_token = \"secret\"\n"

// newMoving returns a server with SQLite databases that can move to a database server and back, without opening them.
func newMoving(t testing.TB, root string, names ...string) *moving {
	m := &moving{t: t, now: clock.NewManual(time.Date(2026, 1, 20, 12, 0, 0, 0, time.UTC)), files: map[string]*engine.Database{}}
	m.server = &Server{Data: filepath.Join(root, "data"), Clock: m.now.Now, Log: slog.New(slog.DiscardHandler)}
	m.must(os.MkdirAll(m.server.Data, 0o700))
	m.must(os.WriteFile(filepath.Join(m.server.Data, secrets.File), []byte(testSecrets), 0o600))
	tables := fstest.MapFS{"m/0001_toys.sql": {Data: []byte("CREATE TABLE toys (body TEXT NOT NULL) STRICT;")}}
	for _, name := range names {
		_, db, err := engine.Open(t.Context(), &engine.Opener{Data: m.server.Data, Create: true, Metrics: obs.NewMetrics("test", "")}, name, engine.Settings{}, engine.OnSQLite(
			func() (migrate.Set, error) { return migrate.Load(name, tables, "m") },
			func(db *sqlitedb.DB, _ engine.StoreOptions) *sqlitedb.DB { return db },
		))
		m.must(err)
		if _, err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.files[name] = db
		m.server.Known.Databases = append(m.server.Known.Databases, engine.FileName(name))
	}
	m.server.Known.Also = []string{secrets.File}
	m.place(names...)
	m.s = Defaults()
	m.s.URL = "file://" + filepath.ToSlash(filepath.Join(root, "backups"))
	return m
}

func (m *moving) close() {
	for _, db := range m.files {
		m.must(db.Close())
	}
}

func (m *moving) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// place keeps these services' databases in SQLite files, and all others on a database server.
func (m *moving) place(inFiles ...string) {
	m.server.Services = nil
	for name, db := range m.files {
		if !slices.Contains(inFiles, name) {
			db = &engine.Database{Service: name, Connection: engine.Connection{Where: "postgres://db/" + name}}
		}
		m.server.Services = append(m.server.Services, &service.Running{Name: name, Opened: &service.Opened{Databases: []*engine.Database{db}}})
	}
}

// send makes a backup a minute later and checks that it deletes exactly the backups that were announced. It returns the backups, newest
// first.
func (m *moving) send() []Listed {
	m.t.Helper()
	m.now.Advance(time.Minute) // a backup is known by its time
	announced, err := m.server.Replaces(&m.s)
	m.must(err)
	before := m.list()
	if _, err := m.server.Send(m.t.Context(), &Sending{Settings: m.s}); err != nil {
		m.t.Fatal(err)
	}
	after := m.list()
	for _, b := range before {
		isAnnounced := slices.ContainsFunc(announced, func(c replica.PointContent) bool { return c.Time.Equal(b.At) })
		isThere := slices.ContainsFunc(after, func(a Listed) bool { return a.At.Equal(b.At) })
		if isAnnounced == isThere {
			m.t.Fatalf("the backup of %v: replaced %v, announced %v", b.At, !isThere, isAnnounced)
		}
	}
	return after
}

func (m *moving) list() []Listed {
	m.t.Helper()
	if !exists(strings.TrimPrefix(m.s.URL, "file://")) {
		return nil
	}
	all, err := List(m.t.Context(), Listing{URL: m.s.URL, Known: m.server.Known, Trust: replica.Trust{Unproven: true}})
	m.must(err)
	return all
}

func (m *moving) databases() []*engine.Database { return m.server.databases() }

// restore restores a database from the newest backup with it.
func (m *moving) restore(root, name string, at time.Time) {
	m.t.Helper()
	target := replica.Folder(strings.TrimPrefix(m.s.URL, "file://"))
	into := filepath.Join(root, "restored", name+at.Format("150405.000000000"))
	m.must(os.MkdirAll(into, 0o700))
	r := replica.Restoring{Target: target, Known: m.server.Known, Trust: replica.Trust{Unproven: true}, At: at, Into: into, Only: []string{engine.FileName(name)}}
	if _, err := replica.Restore(m.t.Context(), r); err != nil {
		m.t.Fatalf("the newest backup with %s, of %v, cannot be restored: %v", name, at, err)
	}
	if problems, err := sqlitedb.VerifyFile(m.t.Context(), filepath.Join(into, engine.FileName(name))); err != nil || len(problems) > 0 {
		m.t.Fatalf("%v, %q", err, problems)
	}
	m.must(os.RemoveAll(into))
}

// TestMovedDatabases moves all databases to a database server between two backups of the same day. The first backup
// stays until all of them are dismissed.
func TestMovedDatabases(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	m := newMoving(t, root, "one", "two")
	defer m.close()
	m.send()
	m.now.Advance(time.Hour)
	if all := m.send(); len(all) != 1 {
		t.Errorf("%d backups of one day", len(all))
	}
	full := m.list()[0].At
	if found := CheckDatabases(m.server.Data, m.databases()); len(found) > 0 {
		t.Errorf("before the move: %+v", found)
	}
	m.place()
	for range 14 {
		m.now.Advance(26 * time.Hour)
		m.send()
	}
	all := m.list()
	last := all[len(all)-1]
	if !last.At.Equal(full) || !slices.Equal(last.Has, []string{"one.db", "two.db", secrets.File}) || len(all) > 7+4+6 || !slices.Equal(all[0].Has, []string{secrets.File}) {
		t.Fatalf("%d backups, the last is %+v", len(all), last)
	}
	m.restore(root, "one", full)
	found := CheckDatabases(m.server.Data, m.databases())
	if len(found) != 2 || found[0].State != service.Warning || !strings.Contains(found[0].Says, "postgres://db/one: the newest with an older copy") || !strings.Contains(found[0].Fix, "holdfast databases dismiss one") {
		t.Errorf("after the move: %+v", found)
	}
	for i, name := range []string{"one", "two"} {
		if all = m.send(); !all[len(all)-1].At.Equal(full) {
			t.Errorf("before %s is dismissed, the last backup is %+v", name, all[len(all)-1])
		}
		if _, err := m.server.Dismiss(name); err != nil {
			t.Fatal(err)
		}
		if found := CheckDatabases(m.server.Data, m.databases()); len(found) != 1-i {
			t.Errorf("after %s was dismissed: %+v", name, found)
		}
	}
	if all = m.send(); slices.ContainsFunc(all, func(b Listed) bool { return slices.Contains(b.Has, "one.db") }) {
		t.Errorf("after all were dismissed: %+v", all)
	}
	m.place("one")
	if _, err := m.server.Dismiss("one"); err == nil {
		t.Error("a database that backups contain can be dismissed")
	}
	if found := CheckDatabases(m.server.Data, m.databases()); len(found) != 1 || found[0].What != "one backup" || !strings.Contains(found[0].Says, "is in no backup") {
		t.Errorf("a database after its return: %+v", found)
	}
	m.send()
	m.place()
	m.now.Advance(time.Hour)
	if all = m.send(); !slices.Equal(all[1].Has, []string{"one.db", secrets.File}) {
		t.Errorf("after it returned and moved again: %+v", all)
	}
}

// TestNewestBackups adds databases, moves them away and back, makes backups, waits, changes the rule and dismisses
// databases. The newest backup with each database that was not dismissed is always there, and can be restored.
func TestNewestBackups(t *testing.T) {
	t.Parallel()
	testdb.Sequential(t)
	names := []string{"one", "two", "three"}
	restored := 0
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(testdb.Memory(), "holdfast-backups-") //nolint:usetesting // one for each walk
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		m := newMoving(rtb{t, rt}, root, names...)
		defer m.close()
		m.s.Verify = false
		newest, dismissed := map[string]time.Time{}, map[string]bool{}
		var placed []string
		for range rapid.IntRange(2, 8).Draw(rt, "steps") {
			m.now.Advance(rapid.SampledFrom([]time.Duration{time.Minute, 7 * time.Hour, 26 * time.Hour, 40 * 24 * time.Hour}).Draw(rt, "time"))
			m.s.Keep = rapid.SampledFrom([]string{"1d", "1d 1w", "7d 4w 6m", ""}).Draw(rt, "rule")
			placed = slices.DeleteFunc(slices.Clone(names), func(string) bool { return rapid.Bool().Draw(rt, "is elsewhere") })
			m.place(placed...)
			if name := rapid.SampledFrom(append(slices.Clone(names), "", "")).Draw(rt, "dismiss"); name != "" && !slices.Contains(placed, name) {
				if _, err := m.server.Dismiss(name); err != nil {
					rt.Fatal(err)
				}
				dismissed[name] = true
			}
			all := m.send()
			for _, name := range placed {
				newest[name], dismissed[name] = all[0].At, false
			}
			for name, at := range newest {
				if dismissed[name] {
					continue
				}
				if !slices.ContainsFunc(all, func(b Listed) bool { return b.At.Equal(at) && slices.Contains(b.Has, engine.FileName(name)) }) {
					rt.Fatalf("the newest backup with %s, of %v, is gone: %+v", name, at, all)
				}
				m.restore(root, name, at)
				restored++
			}
		}
	})
	if restored == 0 {
		t.Error("nothing was restored")
	}
}

type rtb struct {
	testing.TB
	rt *rapid.T
}

func (b rtb) Helper()                   {}
func (b rtb) Fatal(args ...any)         { b.rt.Fatal(args...) }
func (b rtb) Fatalf(f string, a ...any) { b.rt.Fatalf(f, a...) }
