package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// toys is a service whose rows, in one.db, refer to bodies on a disk.
type toys struct {
	w       *world
	next    int
	content map[string][]byte

	mu      sync.Mutex
	disk    map[string]bool
	written func(Body) (settled func(kept bool))
	open    []*toy

	lacking map[string]map[string]bool // bodies that were never in a point, by point
	deleted int
}

// toy is a durable body without a committed row.
type toy struct {
	name    string
	settled func(kept bool)
}

const toyService = "toys"

func newToys(w *world) *toys {
	return &toys{w: w, content: map[string][]byte{}, disk: map[string]bool{}, lacking: map[string]map[string]bool{}}
}

func (s *toys) bodies() Bodies {
	return Bodies{
		Each: func(_ context.Context, fn func(Body) error) (omitted []string, err error) {
			names := s.rows()
			for _, name := range names {
				if err := fn(s.body(name)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		Watch: func(written func(Body) func(bool)) { s.written = written },
	}
}

func (s *toys) body(name string) Body {
	return Body{Name: name, Size: int64(len(s.content[name])), Open: func(context.Context) (io.ReadCloser, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.disk[name] {
			return nil, errcode.New(errcode.NotFound, "there is no toy")
		}
		return io.NopCloser(bytes.NewReader(s.content[name])), nil
	}}
}

func (s *toys) rows() (all []string) {
	s.w.must(s.w.dbs["one.db"].Read(context.Background(), "toys", func(c *sqlite.Conn) (err error) {
		all, err = toyRows(c)
		return err
	}))
	return all
}

func toyRows(c *sqlite.Conn) (all []string, err error) {
	err = sqlitedb.ForEach(c, `SELECT body FROM toys`, func(r *sqlite.Stmt) error {
		all = append(all, r.ColumnText(0))
		return nil
	})
	return all, err
}

func (s *toys) write(content []byte) *toy {
	s.next++
	name := fmt.Sprintf("v1/%02x/toy,%d_x", s.next%3, s.next)
	s.content[name] = content
	s.mu.Lock()
	s.disk[name] = true
	s.mu.Unlock()
	return &toy{name, s.written(s.body(name))}
}

func (s *toys) end(t *toy, commit bool) {
	if commit {
		s.w.must(s.w.exec("one.db", `INSERT INTO toys (body) VALUES (?)`, t.name))
	} else {
		s.lose(t.name)
	}
	t.settled(commit)
}

func (s *toys) put(content []byte) (name string) {
	t := s.write(content)
	s.end(t, true)
	return t.name
}

func (s *toys) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.disk, name)
}

// remove deletes some rows after their bodies, as a garbage collector does.
func (s *toys) remove(modulus int) {
	for i, name := range s.rows() {
		if i%modulus == 0 {
			s.lose(name)
			s.w.must(s.w.exec("one.db", `DELETE FROM toys WHERE body = ?`, name))
		}
	}
}

// checkPoint returns an error unless the target contains the exact bodies of a restored database. Bodies lost before
// the point was published may be missing.
func (s *toys) checkPoint(path, point string, p Point) error {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	defer c.Close()
	names, err := toyRows(c)
	if err != nil {
		return err
	}
	isNew := s.lacking[point] == nil
	if isNew {
		s.lacking[point] = map[string]bool{}
	}
	for _, name := range names {
		r, err := Restoring{Target: s.w.target.Target, Known: testNames, Trust: testTrust, Identities: s.w.r.keys.identities}.OpenBody(context.Background(), p, toyService, name, int64(len(s.content[name])))
		if errcode.Is(err, errcode.NotFound) && (isNew && !s.disk[name] || s.lacking[point][name]) {
			s.lacking[point][name] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("%s needs %s: %w", point, name, err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, s.content[name]) {
			return fmt.Errorf("%s has %d bytes in the target, expected %d, %w", name, len(got), len(s.content[name]), err)
		}
	}
	return nil
}

func toyContent(n int) []byte {
	switch n % 4 {
	case 0:
		return nil
	case 1:
		return []byte(strings.Repeat("holdfast ", n))
	case 2:
		return randomBytes(n)
	}
	return bytes.Repeat(randomBytes(300), 1+n)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func (w *world) toyActions() map[string]func(*rapid.T) {
	s := w.toys
	return map[string]func(*rapid.T){
		"put": func(rt *rapid.T) { s.put(toyContent(rapid.IntRange(0, 500).Draw(rt, "content"))) },
		"put a row later": func(rt *rapid.T) {
			s.open = append(s.open, s.write(toyContent(rapid.IntRange(0, 500).Draw(rt, "content"))))
		},
		"end a put": func(rt *rapid.T) {
			if len(s.open) > 0 {
				s.end(s.open[0], rapid.Bool().Draw(rt, "commit"))
				s.open = s.open[1:]
			}
		},
		"remove": func(rt *rapid.T) { s.remove(rapid.IntRange(1, 3).Draw(rt, "modulus")) },
		"lose": func(*rapid.T) {
			if rows := s.rows(); len(rows) > 0 {
				s.lose(rows[0])
			}
		},
		"upload":    func(*rapid.T) { w.r.bodies.work(context.Background(), false) },
		"reconcile": func(*rapid.T) { w.reconcile() },
		"hours": func(rt *rapid.T) {
			for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
				w.clock.Advance(w.r.opts.Keep)
				w.must(w.exec("two.db", insert, 1, 10))
				_, _, _ = w.capture(), w.upload(), w.ship() // the target may fail
				w.maintain()
				w.reconcile()
			}
		},
		"full queue": func(rt *rapid.T) {
			w.r.bodies.limit = rapid.SampledFrom([]int{0, 1, queued}).Draw(rt, "limit")
		},
	}
}

func (s *toys) endAll() {
	for _, t := range s.open {
		s.end(t, true)
	}
	s.open = nil
}

// reconcile also checks that no point lost a body.
func (w *world) reconcile() {
	w.t.Helper()
	before := len(w.objects())
	_ = w.r.bodies.reconcile(context.Background()) // the target may fail
	if len(w.objects()) < before {
		w.toys.deleted++
		w.checkAgain()
	}
}

func (w *world) upload() error {
	if w.toys == nil {
		return nil
	}
	err := w.r.prepare(context.Background())
	if w.r.bodies.open(err == nil); err != nil {
		return err
	}
	err = w.r.bodies.reconcileIfOwed(context.Background())
	w.r.bodies.work(context.Background(), false)
	return errors.Join(err, w.r.bodies.state().Error)
}

// retainNothing lets every retention end and checks that only referenced bodies remain.
func (w *world) retainNothing() {
	w.t.Helper()
	for range 4 {
		w.clock.Advance(w.r.opts.Keep + time.Hour)
		w.must(w.exec("two.db", insert, 1, 10))
		w.must(errors.Join(w.capture(), w.upload(), w.ship()))
		w.must(w.r.maintain(context.Background()))
		w.must(w.r.bodies.reconcile(context.Background()))
	}
	needed := map[string]bool{}
	for _, name := range w.toys.rows() {
		needed[bodyName(toyService, name)+w.r.keys.suffix()] = true
	}
	for _, object := range w.objects() {
		if strings.HasPrefix(object, bodiesAll) && !needed[object] {
			w.t.Fatalf("%s remains, and no point needs it", object)
		}
	}
	w.checkAgain()
}

func TestUnneededBodies(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Keep = 2 * time.Hour })
	object := bodyName(toyService, w.toys.put([]byte("a toy"))) + w.r.keys.suffix()
	has := func() bool {
		_, err := w.target.Target.Get(t.Context(), object)
		return err == nil
	}
	round := func() {
		t.Helper()
		w.must(w.exec("two.db", insert, 1, 10))
		w.must(errors.Join(w.capture(), w.upload(), w.ship()))
		w.must(w.r.maintain(context.Background()))
		w.reconcile()
	}
	round()
	w.toys.remove(1)
	w.clock.Advance(-100 * time.Hour)
	for range 3 {
		round()
		w.shutDown()
		w.open()
	}
	w.clock.Advance(100 * time.Hour)
	for i := range 8 {
		if !has() && i < 4 {
			t.Fatalf("after %d rounds the body is deleted", i)
		}
		w.clock.Advance(30 * time.Minute)
		round()
		w.kill()
	}
	for range 3 {
		w.clock.Advance(2 * time.Hour)
		round()
	}
	if has() {
		t.Error("the body remains")
	}
	w.close()
}

// TestBodyOfLatePoint checks that a body deleted after a capture stays for that capture's point, which is published
// later.
func TestBodyOfLatePoint(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Keep = 2 * time.Hour })
	defer func() { w.close() }()
	w.toys.put([]byte("a toy"))
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	w.clock.Advance(90 * time.Minute)
	w.must(w.exec("two.db", insert, 1, 10))
	w.must(w.capture())
	w.toys.remove(1)
	w.reconcile()
	w.must(w.ship())
	for range 2 { // the first point is deleted, the second is kept
		w.clock.Advance(50 * time.Minute)
		w.must(errors.Join(w.capture(), w.upload(), w.ship()))
		w.must(w.r.maintain(t.Context()))
		w.reconcile()
	}
	points, err := listPoints(t.Context(), w.target)
	if err != nil || len(points) != 2 || points[0].number != 2 {
		t.Fatalf("points %v, %v: the test proves nothing", points, err)
	}
	w.checkAgain()
}

// TestFullTarget checks that points continue while a full target delays bodies, and that a reconciliation finds bodies
// beyond the queue limit.
func TestFullTarget(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), nil)
	defer func() { w.close() }()
	w.r.bodies.limit = 10
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	w.target.set(targetIsFull)
	for i := range 30 {
		w.toys.put(randomBytes(1000 + i))
	}
	if w.capture() != nil || w.upload() == nil || w.r.ship(t.Context()) == nil {
		t.Error("the full target has no error")
	}
	s := w.r.Status()
	if s.Bodies.Waiting != 30 || s.Bodies.WaitingBytes != 30*1000+30*29/2 || s.Bodies.Error == nil {
		t.Errorf("status %+v", s.Bodies)
	}
	before := w.r.newest().Number
	w.target.set(targetWorks)
	w.must(w.ship())
	if w.r.newest().Number != before {
		t.Fatal("a point was published without its bodies")
	}
	w.must(errors.Join(w.upload(), w.ship()))
	if s := w.r.Status(); s.Bodies.Waiting != 0 || s.Bodies.WaitingBytes != 0 || s.Bodies.Error != nil || w.r.newest().Number == before {
		t.Errorf("status %+v, point %d", s.Bodies, w.r.newest().Number)
	}
}

// TestLostBody checks that an unreadable body is reported and does not prevent points, and that a deleted body is not
// reported.
func TestLostBody(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), nil)
	defer func() { w.close() }()
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	lost, good := w.toys.put([]byte("lost")), w.toys.put([]byte("good"))
	w.toys.lose(lost)
	w.must(errors.Join(w.capture(), w.upload()))
	before := w.r.newest().Number
	w.must(w.ship())
	if w.r.newest().Number != before {
		t.Error("a point was published before it was known that a body is lost")
	}
	w.must(errors.Join(w.upload(), w.ship()))
	s := w.r.Status().Bodies
	if s.Unreadable != 1 || len(s.Names) != 1 || !strings.Contains(s.Names[0], lost) || w.r.newest().Number == before {
		t.Errorf("status %+v", s)
	}
	w.toys.put([]byte("deleted"))
	w.toys.remove(1)
	w.must(errors.Join(w.capture(), w.upload(), w.upload(), w.ship()))
	if s := w.r.Status().Bodies; s.Unreadable != 0 || s.Waiting != 0 {
		t.Errorf("after a deletion: status %+v", s)
	}
	if _, err := (Restoring{Target: w.target, Known: testNames, Trust: testTrust}).OpenBody(t.Context(), w.r.newest(), toyService, good, int64(len(w.toys.content[good]))); err != nil {
		t.Error(err)
	}
}

// TestBodiesOfCommands checks that another process's bodies are found later. A backup, which no service notifies,
// contains them at once.
func TestBodiesOfCommands(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), nil)
	defer func() { w.close() }()
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	w.toys.written = func(Body) func(bool) { return func(bool) {} }
	w.toys.put([]byte("by a command"))
	w.r.isWatching = false
	w.must(w.r.Sync(t.Context()))
	w.note()
	w.check()
	w.toys.put([]byte("by another"))
	w.clock.Advance(2 * reconcileEvery)
	w.must(w.r.bodies.reconcileIfDue(t.Context()))
	w.must(errors.Join(w.capture(), w.ship()))
}

// TestTargetWithoutAnswer checks that services continue to write while uploads hang, and that queued bodies use
// limited memory.
func TestTargetWithoutAnswer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := newLoad(t, root)
	target := deaf{make(chan struct{})}
	written := make(chan func(Body) func(bool), 1)
	r := New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: target, Spool: filepath.Join(root, "spool"),
		Clock: time.Now, Log: discard, Interval: 5 * time.Millisecond,
		Bodies: map[string]Bodies{toyService: {
			Each:  func(context.Context, func(Body) error) ([]string, error) { return nil, nil },
			Watch: func(w func(Body) func(bool)) { written <- w },
		}},
	})
	r.bodies.open(true) // the target hung after it was available
	r.Start()
	notify := <-written
	const n = 6 * queued
	opened := make(chan struct{}, n)
	for i := range n {
		notify(Body{Name: fmt.Sprint("toy/", i), Size: 1000, Open: func(context.Context) (io.ReadCloser, error) {
			opened <- struct{}{}
			return io.NopCloser(bytes.NewReader(make([]byte, 1000))), nil
		}})(true)
	}
	<-opened
	b := r.bodies
	b.mu.Lock()
	if len(b.entries) > 3*queued+slack || len(b.waiting) > queued+uploads {
		t.Errorf("%d entries of %d bodies are in memory", len(b.entries), n)
	}
	b.mu.Unlock()
	if s := r.Status().Bodies; s.Waiting != n || s.WaitingBytes != 1000*n {
		t.Errorf("status %+v", s)
	}
	close(target.release)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r.Close(ctx) == nil {
		t.Error("Close does not report that the target fails")
	}
}

// TestLargeBodyDelaysNothing checks that later changes are sent during the upload of a body, but no point is
// published.
func TestLargeBodyDelaysNothing(t *testing.T) {
	t.Parallel()
	w := newToyWorld(t, testdb.MemoryFolder(t), nil)
	defer func() { w.close() }()
	w.must(errors.Join(w.capture(), w.upload(), w.ship()))
	before := w.r.newest().Number
	large := w.toys.write([]byte("large"))
	w.must(w.exec("one.db", `INSERT INTO toys (body) VALUES (?)`, large.name))
	for range 3 {
		w.must(w.exec("two.db", insert, 1, 10))
		w.must(errors.Join(w.capture(), w.ship()))
		if _, waiting := w.r.sources[1].pending(); len(waiting) > 0 || w.r.newest().Number != before {
			t.Fatalf("%d files wait, point %d", len(waiting), w.r.newest().Number)
		}
		w.clock.Advance(24 * time.Hour)
		w.must(w.r.maintain(t.Context()))
	}
	large.settled(true)
	w.must(errors.Join(w.upload(), w.ship(), w.ship()))
	if got := w.r.newest().Number; got <= before {
		t.Errorf("point %d", got)
	}
}

func TestCloseDuringReconciliation(t *testing.T) {
	t.Parallel()
	root := testdb.MemoryFolder(t)
	l := newLoad(t, root)
	begun := make(chan struct{}, 2)
	r := New(Options{
		Server: "server", Key: testKey, Files: map[string]*sqlitedb.DB{"one.db": l.db}, Target: Folder(filepath.Join(root, "target")), Spool: filepath.Join(root, "spool"),
		Clock: time.Now, Log: discard, Interval: 5 * time.Millisecond,
		Bodies: map[string]Bodies{toyService: {
			Each: func(_ context.Context, fn func(Body) error) ([]string, error) {
				return nil, fn(Body{Name: "toy", Size: 1000, Open: func(ctx context.Context) (io.ReadCloser, error) {
					begun <- struct{}{}
					<-ctx.Done()
					return nil, ctx.Err()
				}})
			},
			Watch: func(func(Body) func(bool)) {},
		}},
	})
	r.Start()
	<-begun
	if s := r.Status().Bodies; s.Waiting != 1 || s.WaitingBytes != 1000 {
		t.Errorf("status %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if r.CloseBodies(ctx) == nil {
		t.Error("it does not report that a body is missing")
	}
	if r.Close(t.Context()) == nil || r.newest().Number != 0 {
		t.Error("a point was published without a body")
	}
}

func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, recipients := range map[string][]age.Recipient{"plain": nil, "encrypted": {identity.Recipient()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newToyWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Recipients = recipients })
			defer func() { w.close() }()
			if recipients != nil {
				w.r.keys.identities = []age.Identity{identity}
			}
			for _, content := range [][]byte{nil, []byte("a"), randomBytes(200_000), bytes.Repeat(randomBytes(500), 1000)} {
				w.toys.put(content)
			}
			w.must(errors.Join(w.capture(), w.upload(), w.ship()))
			from := Restoring{Target: w.target, Known: testNames, Trust: testTrust, Identities: w.r.keys.identities}
			damageBodies(t, w, from)
			if recipients == nil {
				return
			}
			for body := range w.toys.content {
				if _, err := (Restoring{Target: w.target, Known: testNames, Trust: testTrust}).OpenBody(t.Context(), w.r.newest(), toyService, body, int64(len(w.toys.content[body]))); !errcode.Is(err, errcode.Invalid) {
					t.Errorf("without an identity: %v", err)
				}
			}
		})
	}
}

func damageBodies(t *testing.T, w *world, from Restoring) {
	t.Helper()
	for body := range w.toys.content {
		path := filepath.Join(w.root, "target", bodyName(toyService, body)+w.r.keys.suffix())
		whole, err := os.ReadFile(path)
		w.must(err)
		for kind, damaged := range damages(whole) {
			want := errcode.Internal
			w.must(os.WriteFile(path, damaged, 0o600))
			if kind == "missing" {
				w.must(os.Remove(path))
				want = errcode.NotFound
			}
			r, err := from.OpenBody(t.Context(), w.r.newest(), toyService, body, int64(len(w.toys.content[body])))
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				err = errors.Join(err, r.Close())
			}
			if !errcode.Is(err, want) {
				t.Errorf("%s of a body with %d bytes: %v", kind, len(w.toys.content[body]), err)
			}
		}
		w.must(os.WriteFile(path, whole, 0o600))
	}
}

func TestBodyNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"v2/a-b/c.d/ID,sum", "a_2c", "a,", "a/.b", "a/_2eb", "/a", "a/", "a//b", "a/b", "A", "a", "ü", "..", "a/../b", ""} {
		object := bodyName("toys", name)
		if other, again := seen[object]; again {
			t.Errorf("%q and %q are %s", name, other, object)
		}
		seen[object] = name
		for segment := range strings.SplitSeq(object, "/") {
			if segment == "" && name != "" || strings.HasPrefix(segment, ".") {
				t.Errorf("%q is %s", name, object)
			}
		}
	}
	if got := bodyName("buckets", "v2/0a/1-b,2"); got != "bodies/buckets/v2/0a/1-b_2c2" {
		t.Errorf("got %s", got)
	}
}
