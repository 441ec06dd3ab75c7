package fault

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// A backup that is made while all write is what was there at one moment while
// it was made. That holds also when the server dies meanwhile. When the backup
// itself dies there is none, or a whole one, and the next succeeds.
func TestBackupOnSQLite(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testdb.SQLite(t)).installed(1)
	h.server = h.serve()
	folder := t.TempDir()
	length := time.Second // of a backup
	h.rounds(20, func(round int) fault {
		choose := rand.New(rand.NewPCG(h.seed, uint64(round)<<8|0xfe))
		b := &backup{harness: h, dir: filepath.Join(folder, fmt.Sprint(round))}
		b.moment = time.Duration(choose.Int64N(int64(length)))
		switch round % 4 {
		case 1:
			return fault{strike: b.makeAndKill, recover: b.restore}
		case 3:
			return fault{strike: b.makeWhileServerDies, recover: func() {
				b.restore()
				h.server = h.serve()
			}, deadly: true}
		}
		return fault{strike: func() {
			start := time.Now()
			b.make()
			length = min(length, time.Since(start))
		}, recover: func() {
			b.nobodyNoticed()
			b.restore()
		}}
	})
}

// What PostgreSQL's own tools copy while all write is what was there at one
// moment, too.
func TestDumpOfPostgres(t *testing.T) {
	t.Parallel()
	dump, restore, psql := binary.Program(t, "pg_dump"), binary.Program(t, "pg_restore"), binary.Program(t, "psql")
	guide, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	leap := regexp.MustCompile(`(?m)^psql \S+ (--command=)"(UPDATE .*)"$`).FindSubmatch(guide)
	if leap == nil {
		t.Fatal("the guide does not say how numbers of changes are left out")
	}
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), roomsOn(url)...).installed(1)
	h.server = h.serve()
	for round := range 3 {
		b := &backup{harness: h, dir: filepath.Join(t.TempDir(), "dump")}
		h.quietly(round, func() {
			b.begun = h.clock.Add(1)
			run(t, dump, "--format=custom", "--file="+b.dir, url)
			b.ended = h.clock.Add(1)
		})
		other := testdb.PostgresDatabase(t)
		run(t, restore, "--exit-on-error", "--dbname="+other, b.dir)
		run(t, psql, other, string(leap[1])+string(leap[2]))
		h.serveAs(binary.Start(t, t.TempDir(), append(slices.Clone(h.vars), roomsOn(other)...)...), b.begun, b.ended, true)
	}
}

// run runs another program to its end.
func run(t *testing.T, path string, args ...string) {
	t.Helper()
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

// backup is one that is made of the harness's server.
type backup struct {
	*harness
	dir          string
	moment       time.Duration // when something dies, after the beginning
	begun, ended int64         // by the harness's clock
}

// make runs the command.
func (b *backup) make() {
	b.t.Helper()
	b.begun = b.clock.Add(1)
	r := binary.Run(b.t, b.server.Env, "backup", b.dir)
	b.ended = b.clock.Add(1)
	if r.Status != 0 || r.Stderr != "" {
		b.t.Errorf("backup: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

// makeWhileServerDies ends the server at a moment of the backup.
func (b *backup) makeWhileServerDies() {
	var making sync.WaitGroup
	making.Go(b.make)
	pause(nil, b.moment)
	b.server.Kill()
	making.Wait()
}

// makeAndKill ends the backup at a moment of it, and makes another unless the
// first is whole.
func (b *backup) makeAndKill() {
	b.t.Helper()
	b.begun = b.clock.Add(1)
	cmd := exec.Command(binary.Path(), "backup", b.dir)
	cmd.Env = b.server.Env
	must(b.t, cmd.Start())
	pause(nil, b.moment)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	b.ended = b.clock.Add(1)
	found, err := filepath.Glob(b.dir + "*")
	must(b.t, err)
	for _, path := range found {
		if path != b.dir && !strings.HasPrefix(path, b.dir+".partial-") {
			b.t.Errorf("a backup that died left %s", path)
		}
	}
	if !slices.Contains(found, b.dir) {
		b.make()
	}
}

// nobodyNoticed fails if a request went without an answer.
func (h *harness) nobodyNoticed() {
	h.t.Helper()
	for _, w := range h.writers {
		if w.lost != nil {
			h.t.Errorf("not answered: %s", w.lost)
		}
	}
	for _, w := range h.authors() {
		if w.lost != nil {
			h.t.Errorf("not answered: %s", w.lost)
		}
	}
}

// restore serves a copy of the backup, made as an operator does, and holds what
// is there against what the writers know.
func (b *backup) restore() {
	b.t.Helper()
	data := filepath.Join(b.t.TempDir(), "restored")
	run(b.t, "cp", "-a", b.dir, data)
	b.serveAs(binary.Start(b.t, data, b.vars...), b.begun, b.ended, true)
	must(b.t, errors.Join(os.RemoveAll(data), os.RemoveAll(b.dir))) // a long run would fill the disk
}

// serveAs checks what another server has, which is what was there at one
// moment of a span of the clock. It ends that server. One that leaps leaves out
// the numbers of changes that the original may have given out since.
func (h *harness) serveAs(other *binary.Server, begun, ended int64, leaps bool) {
	h.t.Helper()
	live := h.server
	h.server = other
	for _, u := range h.users {
		h.checkMoment(u, begun, ended)
		if a, err := u.send(h, http.MethodPut, "/storage/restored/x", `{}`); err != nil || a.Status != http.StatusOK {
			h.t.Errorf("a write to what was restored: %d %s %v", a.Status, a.Body, err)
		}
	}
	for _, in := range h.installs {
		h.checkInstallMoment(in, begun, ended, leaps)
		a := h.call(in, http.StatusCreated, call{method: http.MethodPut, path: "/namespaces/settings/records/restored", body: `{"value":1}`}, nil)
		if seq, err := seqOf(a.Header.Get("ETag")); err != nil || leaps && seq <= in.knows() {
			h.t.Errorf("what was restored gives out the number %d again, of %d that are known: %v", seq, in.knows(), err)
		}
	}
	other.Kill()
	h.server = live
}

// checkMoment looks for a stamp at which the user had just what is there. With
// it every write acknowledged before the span is there, none that was sent
// after it is, and every other is there or not as a whole and in order.
func (h *harness) checkMoment(u *user, begun, ended int64) {
	h.t.Helper()
	_, there := h.read(u)
	cuts := []moment{0}
	for _, w := range u.writers {
		for _, v := range w.trail {
			cuts = append(cuts, v.stamp)
		}
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		if !slices.ContainsFunc(u.writers, func(w *writer) bool { return !w.was(there[w.name], cut, begun, ended) }) {
			return
		}
	}
	for _, w := range u.writers {
		h.t.Errorf("%s was never so, in the order of stamps; at the end it differed by%s", w.name, difference(there[w.name], w.state))
	}
}

// was reports whether the writer's state was this when the user's newest stamp
// was that, and whether that can have been in the span.
func (w *writer) was(there state, newest moment, begun, ended int64) bool {
	after, _ := slices.BinarySearchFunc(w.trail, newest+1, func(v version, m moment) int { return cmp.Compare(v.stamp, m) })
	at, final := w.trail[after-1], after == len(w.trail)
	if at.sent > ended || !final && w.trail[after].acked < begun {
		return false
	}
	return maps.Equal(there, at.state) ||
		final && w.lost != nil && w.lost.sent < ended && maps.Equal(there, w.lost.applied(at.state, w.lost.stampIn(there)))
}
