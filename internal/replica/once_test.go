package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

type backups struct {
	*world

	target *faultyTarget
	opts   Options
	dumps  map[uint64]map[string]string

	objects map[string]string // each object's size and time at the last check
	good    map[Position]bool
}

func newBackups(w *world) *backups {
	b := &backups{world: w, target: &faultyTarget{Target: Folder(filepath.Join(w.root, "backups"))}, dumps: map[uint64]map[string]string{}}
	for _, s := range w.r.sources {
		s.least = math.MaxInt64 // no snapshots: it reads all pages once, unless it missed frames
	}
	b.opts = Options{Server: "server-1", Key: testKey, Once: true, Target: b.target, Clock: w.clock.Now, Log: slog.New(slog.DiscardHandler)}
	return b
}

func (b *backups) make() error {
	b.t.Helper()
	o := b.opts
	o.Files, o.Spool = b.dbs, filepath.Join(b.folder, "backup-spool")
	r := New(o)
	for _, s := range r.sources {
		s.least = 60_000
	}
	if err := r.Sync(b.t.Context()); err != nil {
		return errors.Join(err, r.Close(b.t.Context()))
	}
	of := map[string]string{}
	for _, name := range names {
		of[name] = b.dump(name)
	}
	b.dumps[r.Published().Number] = of
	return errors.Join(r.Close(b.t.Context()), r.Tidy(b.t.Context()))
}

func (b *backups) check() (points int) {
	b.t.Helper()
	listed, err := listPoints(b.t.Context(), b.target.Target)
	b.must(err)
	b.compareObjects()
	for _, l := range listed {
		p, err := pointOf(b.target.Target, l.name)
		b.must(err)
		into := filepath.Join(b.root, "backup-restored")
		b.must(os.MkdirAll(into, 0o700))
		folder, err := durable.OpenFolder(into)
		b.must(err)
		for name, position := range p.Files {
			if b.good[position] {
				continue
			}
			b.good[position] = true
			b.must(Restoring{Target: b.target.Target, Known: testNames, Trust: testTrust, Into: into}.restore(b.t.Context(), p.keys(nil), position, folder, name))
			if want, known := b.dumps[p.Number][name]; known && dumpFile(b.t, filepath.Join(into, name)) != want {
				b.t.Fatalf("point %d: %s differs from what it was", p.Number, name)
			}
		}
		b.must(errors.Join(folder.Close(), os.RemoveAll(into)))
	}
	return len(listed)
}

// compareObjects makes check restore all points again if an object was deleted or replaced.
func (b *backups) compareObjects() {
	b.t.Helper()
	now := map[string]string{}
	names, err := b.target.Target.List(b.t.Context(), filesAll)
	b.must(err)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(b.root, "backups", name))
		b.must(err)
		now[name] = fmt.Sprint(info.Size(), info.ModTime())
	}
	isSame := b.objects != nil
	for name, was := range b.objects {
		isSame = isSame && now[name] == was
	}
	if b.objects = now; !isSame {
		b.good = map[Position]bool{}
	}
}

// TestBackupModel checks after random events that every backup can be restored, and that the server's replica
// continues without rereading all pages.
func TestBackupModel(t *testing.T) {
	testdb.CheckOnly(t, "TestModel walks a replica in the same way")
	testdb.Sequential(t)
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(testdb.Memory(), "holdfast-replica-") //nolint:usetesting // one for each walk
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		w := newWorld(rtb{t, rt}, root, nil)
		defer func() { w.close() }()
		b := newBackups(w)
		now := clock.NewManual(time.Unix(1_700_000_000, 0))
		b.opts.Clock = now.Now // otherwise daily snapshots of the replica read all pages, too
		b.opts.Rule = rapid.SampledFrom([]Keep{{}, {Days: 2}}).Draw(rt, "rule")
		w.must(w.capture())
		copied := ""
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				w.must(w.exec(rapid.SampledFrom(names).Draw(rt, "file"), insert, rapid.IntRange(1, 40).Draw(rt, "rows"), 2000))
			},
			"delete":  func(*rapid.T) { w.must(w.exec(names[0], `DELETE FROM t WHERE id % 3 = 0`)) },
			"sync":    func(*rapid.T) { w.must(w.capture()); w.must(w.ship()) },
			"back up": func(*rapid.T) { w.must(b.make()) },
			"fail to": func(rt *rapid.T) {
				after := rapid.IntRange(0, 6).Draw(rt, "after")
				b.opts.Fault = func(string) error {
					if after--; after < 0 {
						return errTarget
					}
					return nil
				}
				_ = b.make()
				b.opts.Fault = nil
			},
			"target fails": func(rt *rapid.T) {
				b.target.set(rapid.IntRange(targetWorks, targetIsFull).Draw(rt, "mode"))
				_ = b.make()
				b.target.set(targetWorks)
			},
			"time": func(*rapid.T) { now.Advance(13 * time.Hour) },
			"copy": func(*rapid.T) {
				copied = filepath.Join(root, "copied-spool")
				w.must(os.RemoveAll(copied))
				w.must(os.MkdirAll(filepath.Join(w.folder, "backup-spool"), 0o700))
				w.must(os.CopyFS(copied, os.DirFS(filepath.Join(w.folder, "backup-spool"))))
			},
			"go back": func(*rapid.T) { // like a copied data folder
				if copied != "" {
					w.must(os.RemoveAll(filepath.Join(w.folder, "backup-spool")))
					w.must(os.CopyFS(filepath.Join(w.folder, "backup-spool"), os.DirFS(copied)))
				}
			},
			"": func(*rapid.T) { b.check() },
		})
		w.must(b.make())
		if b.check() == 0 {
			rt.Fatal("no point remains")
		}
		w.must(w.capture())
		w.must(w.ship())
		for _, s := range w.r.sources {
			if s.compared != 1 {
				rt.Fatalf("the replica has read all pages of %s %d times", s.name, s.compared)
			}
		}
	})
}

// TestBackupIsIncremental checks that later backups, even after a failed backup, send only changed pages, and that a
// new series begins once the files are larger than the database.
func TestBackupIsIncremental(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), nil)
	defer w.close()
	b := newBackups(w)
	sizes := func() (all map[string]int64) {
		all = map[string]int64{}
		objects, err := b.target.List(t.Context(), filesAll)
		w.must(err)
		for _, name := range objects {
			info, err := os.Stat(filepath.Join(w.root, "backups", name))
			w.must(err)
			all[name] = info.Size()
		}
		return all
	}
	sent := func() (n int64, series int) {
		t.Helper()
		before := sizes()
		w.must(b.make())
		runs := map[string]bool{}
		for name, size := range sizes() {
			if _, known := before[name]; !known {
				n += size
			}
			if strings.HasPrefix(name, filesAll+names[0]+"/") {
				runs[strings.Split(name, "/")[2]] = true
			}
		}
		return n, len(runs)
	}
	w.must(w.exec(names[0], insert, 300, 4000))
	whole, _ := sent()
	w.must(w.exec(names[0], insert, 1, 10))
	if n, series := sent(); n > whole/5 || series != 1 {
		t.Errorf("the second backup sends %d bytes of %d, in %d series", n, whole, series)
	}
	for _, point := range []string{"spool", "send", "sent", "publish"} {
		w.must(w.exec(names[0], insert, 1, 10))
		b.opts.Fault = func(at string) error {
			if at == point {
				return errTarget
			}
			return nil
		}
		if err := b.make(); !errors.Is(err, errTarget) {
			t.Fatalf("%s: %v", point, err)
		}
		b.opts.Fault = nil
		w.must(w.exec(names[0], insert, 1, 10))
		if n, series := sent(); n > whole/5 || series != 1 {
			t.Errorf("the backup after one that failed at %s sends %d bytes of %d, in %d series", point, n, whole, series)
		}
	}
	for range 4 {
		w.must(w.exec(names[0], insert, 200, 4000))
		w.must(b.make())
	}
	if _, series := sent(); series < 2 {
		t.Error("no new series begins")
	}
	b.check()
}

// TestBackupsReadBack checks that a backup with a damaged or missing object publishes no point and names the object.
func TestBackupsReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), nil)
	defer w.close()
	b := newBackups(w)
	w.must(b.make())
	damages := map[string]func(string, []byte, Target) error{
		"differs from the sent": func(name string, content []byte, t Target) error {
			content[len(content)/2] ^= 1
			return t.Put(context.Background(), name, bytes.NewReader(content))
		},
		"differs from the sent data": func(name string, content []byte, t Target) error {
			return t.Put(context.Background(), name, bytes.NewReader(content[:len(content)-1]))
		},
		"is missing": func(string, []byte, Target) error { return nil },
	}
	for want, damage := range damages {
		w.must(w.exec(names[0], insert, 1, 10))
		b.opts.Target = damaging{b.target, damage}
		err := b.make()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "files/one.db/") {
			t.Errorf("%q: %v", want, err)
		}
		b.opts.Target = b.target
		if b.check() != 1 {
			t.Fatal("a point was published or lost")
		}
	}
	// A previous backup's missing file is sent again.
	w.must(b.make())
	objects, err := b.target.List(t.Context(), filesAll+"one.db/")
	w.must(err)
	w.must(b.target.Delete(t.Context(), objects[0]))
	w.must(b.make())
	into := t.TempDir()
	if _, err := Restore(t.Context(), Restoring{Target: b.target, Known: testNames, Trust: testTrust, Into: into}); err != nil {
		t.Error(err)
	}
}

type damaging struct {
	Target

	damage func(name string, content []byte, t Target) error
}

func (d damaging) Put(ctx context.Context, name string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil || !strings.HasPrefix(name, filesAll) {
		return errors.Join(err, d.Target.Put(ctx, name, bytes.NewReader(content)))
	}
	return d.damage(name, content, d.Target)
}

func TestBackupAndReplicaAtOneURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), nil)
	defer w.close()
	b := newBackups(w)
	w.must(b.make())
	w.r.opts.Target = b.target
	if err := w.r.Sync(t.Context()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "backups") {
		t.Errorf("a replica over backups: %v", err)
	}
	w.r.opts.Target = w.target
	w.must(w.r.Sync(t.Context()))
	b.opts.Target = w.target
	if err := b.make(); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("backups over a replica: %v", err)
	}
}

func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Clock, o.Interval = clock.System, time.Millisecond })
	b := newBackups(w)
	b.opts.Clock = clock.System
	w.r.Start()
	var writing sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	acknowledged := make([]time.Time, 0, 10_000)
	writing.Go(func() {
		for id := 10_000; ctx.Err() == nil; id++ {
			if err := w.exec(names[0], `INSERT INTO t (id, body) VALUES (?, randomblob(2000))`, id); err != nil {
				t.Error(err)
			}
			acknowledged = append(acknowledged, time.Now())
		}
	})
	backups := 10
	for range backups {
		w.must(b.make())
	}
	stop()
	writing.Wait()
	w.must(w.r.Close(t.Context()))
	defer w.close()
	for _, s := range w.r.sources {
		if s.compared != 1 {
			t.Errorf("the replica has read all pages of %s %d times", s.name, s.compared)
		}
	}
	listed, err := listPoints(t.Context(), b.target)
	w.must(err)
	for _, l := range listed {
		into := t.TempDir()
		done, err := Restore(t.Context(), Restoring{Target: b.target, Known: testNames, Trust: testTrust, Into: into, At: l.time})
		w.must(err)
		text := dumpFile(t, filepath.Join(into, names[0]))
		for i, at := range acknowledged {
			if at.Before(done.Point.Time) && !strings.Contains(text, fmt.Sprintf("t %d ", 10_000+i)) {
				t.Fatalf("point %d lacks row %d of %d", done.Point.Number, i, len(acknowledged))
			}
		}
	}
	t.Logf("%d writes", len(acknowledged))
}

// TestKilledBackups kills a process that makes continuous backups, together with the server and its replica. Every
// published point can be restored, and no backup makes the replica resend the database.
func TestKilledBackups(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it kills many processes")
	root := testdb.MemoryFolder(t)
	target := Folder(filepath.Join(root, "backups"))
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	var all []row
	points := 0
	for round := range rounds {
		all = append(all, runAndKill(t, root, time.Duration(900+round*130)*time.Millisecond, "server", "backup")...)
		listed, err := listPoints(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range listed[points:] {
			into := t.TempDir()
			done, err := Restore(t.Context(), Restoring{Target: target, Known: testNames, Trust: testTrust, Into: into, At: l.time})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			found := restoredRows(t, done.Files[0])
			for _, r := range all {
				if r.at < done.Point.Time.UnixMicro() && !found[row{r.life, r.writer, r.n, 0}] {
					t.Fatalf("round %d: %+v was acknowledged before the point and is missing", round, r)
				}
			}
		}
		t.Logf("round %d: %d writes acknowledged, %d points", round, len(all), len(listed)-points)
		points = len(listed)
		names, err := Folder(filepath.Join(root, "target")).List(t.Context(), filesAll)
		if err != nil {
			t.Fatal(err)
		}
		if runs := len(filesOf(names)); runs > round+1 {
			t.Errorf("the replica has begun %d series in %d rounds", runs, round+1)
		}
	}
	if points < rounds {
		t.Errorf("%d points", points)
	}
}

func backUp(root string) (err error) {
	db, err := sqlitedb.Open(context.Background(), sqlitedb.Options{Path: filepath.Join(root, "one.db")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Write(context.Background(), "row", createRows); err != nil {
		return err
	}
	r := New(Options{
		Server: "server", Key: testKey, Once: true, Files: map[string]*sqlitedb.DB{"one.db": db}, Target: Folder(filepath.Join(root, "backups")),
		Spool: filepath.Join(root, "backup-spool"), Clock: clock.System, Log: slog.New(slog.DiscardHandler),
	})
	return errors.Join(r.Sync(context.Background()), r.Close(context.Background()))
}

// TestBackupBodies checks that every backup contains its databases' bodies, that each body is sent once, and that
// unneeded bodies are deleted.
func TestBackupBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), nil)
	defer w.close()
	b := newBackups(w)
	now := clock.NewManual(time.Unix(1_700_000_000, 0))
	b.opts.Clock, b.opts.Rule = now.Now, Keep{Hours: 2}
	current := map[string]string{}
	sent := 0
	b.opts.Target = counting{b.target, &sent}
	b.opts.Bodies = map[string]Bodies{"service": {
		Watch: func(func(Body) func(bool)) { t.Error("a backup watches bodies") },
		Each: func(_ context.Context, fn func(Body) error) ([]string, error) {
			for name, content := range current {
				err := fn(Body{Name: name, Size: int64(len(content)), Open: func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(strings.NewReader(content)), nil
				}})
				if err != nil {
					return nil, err
				}
			}
			return []string{"one elsewhere"}, nil
		},
	}}
	had := map[uint64]map[string]string{}
	for round := range 12 {
		current[fmt.Sprint("body-", round)] = strings.Repeat(fmt.Sprint("content ", round), 100)
		delete(current, fmt.Sprint("body-", round-2))
		now.Advance(time.Hour)
		if round%4 == 3 {
			b.opts.Fault = func(at string) error {
				if at == "publish" {
					return errTarget
				}
				return nil
			}
			if err := b.make(); !errors.Is(err, errTarget) {
				t.Fatal(err)
			}
			b.opts.Fault = nil
		}
		w.must(b.make())
		points, err := Points(t.Context(), b.target, testNames, testTrust, 0)
		w.must(err)
		had[points[0].Number] = maps.Clone(current)
		if want := min(2, round+1); len(points) != want {
			t.Errorf("round %d: %d backups", round, len(points))
		}
		for _, p := range points {
			b.checkBodies(p, had[p.Number])
		}
	}
	if sent != 12 {
		t.Errorf("12 bodies were sent %d times", sent)
	}
	objects, err := b.target.List(t.Context(), bodiesAll)
	w.must(err)
	if len(objects) > 6 { // from the two backups and the most recently unreferenced bodies
		t.Errorf("%d bodies remain: %v", len(objects), objects)
	}
}

func (b *backups) checkBodies(p Point, want map[string]string) {
	b.t.Helper()
	for name, content := range want {
		r, err := Restoring{Target: b.target, Known: testNames, Trust: testTrust}.OpenBody(b.t.Context(), p, "service", name, int64(len(content)))
		if err != nil {
			b.t.Fatalf("backup %d: %s: %v", p.Number, name, err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(got) != content {
			b.t.Errorf("backup %d: %s has %d bytes, %v", p.Number, name, len(got), err)
		}
	}
}

type counting struct {
	Target

	sent *int
}

func (c counting) Put(ctx context.Context, name string, body io.Reader) error {
	if strings.HasPrefix(name, bodiesAll) {
		*c.sent++
	}
	return c.Target.Put(ctx, name, body)
}

// TestOrder requires that a database that Options.Order does not list is replicated all the same.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.SQLite(t), func(o *Options) { o.Order = []string{names[1]} })
	defer w.close()
	if got := w.r.sources[0].name; got != names[1] || len(w.r.sources) != len(names) {
		t.Errorf("the first of %d databases is %s, want %s of %d", len(w.r.sources), got, names[1], len(names))
	}
	w.must(w.r.Sync(t.Context()))
	if files := w.r.Published().Files; len(files) != len(names) {
		t.Errorf("the point contains %v, want %v", files, names)
	}
}
