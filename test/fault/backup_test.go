package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// A backup that is made during writes contains the state of one moment of the backup.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onSQLite: backupOfSQLite, onPostgres: dumpOfPostgres})
}

// backupOfSQLite makes backups, also while the server is killed. A killed backup leaves nothing or
// a complete backup, and the next one succeeds.
func backupOfSQLite(t *testing.T) {
	t.Helper()
	h := newHarness(t, testdb.SQLite(t))
	h.server = h.serve()
	folder := t.TempDir()
	length := time.Second // of a backup
	h.rounds(4, func(round int) fault {
		choose := h.choice(round)
		b := &backup{harness: h, dir: filepath.Join(folder, fmt.Sprint(round))}
		b.moment = time.Duration(choose.Int64N(int64(length)))
		switch round % 4 {
		case 1:
			return fault{inject: b.makeAndKill, recover: b.restore}
		case 3:
			return fault{inject: b.makeWhileServerDies, recover: func() {
				b.restore()
				h.server = h.serve()
			}, deadly: true}
		}
		return fault{inject: func() {
			start := time.Now()
			b.make()
			length = min(length, time.Since(start))
		}, recover: func() {
			b.wantNoFailures()
			b.restore()
		}}
	})
}

// dumpOfPostgres copies with pg_dump and pg_restore.
func dumpOfPostgres(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "pg_dump makes the backup; this takes a minute or more")
	dump, restore := binary.Program(t, "pg_dump"), binary.Program(t, "pg_restore")
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), servicesOn(url)...)
	h.server = h.serve()
	for round := range min(int(number(t, "FAULT_ROUNDS", 1)), 20) {
		b := &backup{harness: h, dir: filepath.Join(t.TempDir(), "dump")}
		h.withoutFailures(round, func() {
			b.begun = h.clock.Add(1)
			run(t, dump, "--format=custom", "--file="+b.dir, url)
			b.ended = h.clock.Add(1)
		})
		other := testdb.PostgresDatabase(t)
		run(t, restore, "--exit-on-error", "--dbname="+other, b.dir)
		for _, s := range services() {
			if s.afterRestore != nil {
				s.afterRestore(t, other)
			}
		}
		data := filepath.Join(t.TempDir(), "data") // bodies are copied as files
		run(t, "cp", "-a", h.data, data)
		h.serveAs(binary.Start(t, data, append(slices.Clone(h.vars), servicesOn(other)...)...), b.begun, b.ended, true)
	}
}

// run runs another program to its end.
func run(t *testing.T, path string, args ...string) {
	t.Helper()
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

// backup is a backup of the harness's server.
type backup struct {
	*harness
	dir          string
	moment       time.Duration // of the kill, after the beginning
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

// makeWhileServerDies kills the server during the backup.
func (b *backup) makeWhileServerDies() {
	var making sync.WaitGroup
	making.Go(b.make)
	pause(nil, b.moment)
	b.server.Kill()
	making.Wait()
}

// makeAndKill kills the backup, and makes another unless the first is complete.
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

// wantNoFailures fails if a request had no answer.
func (h *harness) wantNoFailures() {
	h.t.Helper()
	for _, w := range h.workloads {
		for _, lost := range w.unanswered() {
			h.t.Errorf("not answered: %s", lost)
		}
	}
}

// restore restores the backup as an operator does, serves it, and compares its data with what the
// writers know.
func (b *backup) restore() {
	b.t.Helper()
	data := filepath.Join(b.t.TempDir(), "restored")
	run(b.t, "cp", "-a", b.dir, data)
	b.serveAs(binary.Start(b.t, data, b.vars...), b.begun, b.ended, true)
	must(b.t, errors.Join(os.RemoveAll(data), os.RemoveAll(b.dir))) // a long run would fill the disk
}

// serveAs checks that the data of another server is that of one moment of the span of the clock,
// and stops that server. A server that leaps skips the change numbers that the original may have
// assigned since.
func (h *harness) serveAs(other *binary.Server, begun, ended int64, leaps bool) {
	h.t.Helper()
	live := h.server
	h.server = other
	for _, w := range h.workloads {
		w.checkCopy(h, begun, ended, leaps)
	}
	other.Kill()
	h.server = live
}
