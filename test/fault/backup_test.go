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
	"holdfast/test/fault/harness"
)

// TestBackupUnderLoad checks that a backup made during writes contains the data at one moment.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnSQLite: backupOfSQLite, harness.OnPostgres: dumpOfPostgres})
}

// backupOfSQLite kills the server during some backups, and kills other backups. A killed backup leaves nothing or a
// complete backup, and the next backup succeeds.
func backupOfSQLite(t *testing.T) {
	t.Helper()
	h := newHarness(t, testdb.SQLite(t))
	h.Server = h.Serve()
	folder := t.TempDir()
	length := time.Second
	h.Rounds(4, func(round int) harness.Fault {
		choose := h.Choice(round)
		b := &backup{Harness: h, dir: filepath.Join(folder, fmt.Sprint(round))}
		b.moment = time.Duration(choose.Int64N(int64(length)))
		switch round % 4 {
		case 1:
			return harness.Fault{Inject: b.makeAndKill, Recover: b.restore}
		case 3:
			return harness.Fault{Inject: b.makeWhileServerDies, Recover: func() {
				b.restore()
				h.Server = h.Serve()
			}, Deadly: true}
		}
		return harness.Fault{Inject: func() {
			start := time.Now()
			b.make()
			length = min(length, time.Since(start))
		}, Recover: func() {
			wantNoFailures(b.Harness)
			b.restore()
		}}
	})
}

func dumpOfPostgres(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "pg_dump makes the backup; this takes a minute or more")
	dump := binary.Program(t, "pg_dump")
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), servicesOn(url)...)
	h.Server = h.Serve()
	for round := range min(int(harness.Number(t, "FAULT_ROUNDS", 1)), 20) {
		b := &backup{Harness: h, dir: filepath.Join(t.TempDir(), "dump")}
		withoutFailures(h, round, func() {
			b.begun = h.Clock.Add(1)
			harness.Run(t, dump, "--format=custom", "--file="+b.dir, url)
			b.ended = h.Clock.Add(1)
		})
		other := testdb.PostgresDatabase(t)
		data := filepath.Join(t.TempDir(), "data") // secrets and bodies are copied as files
		harness.Run(t, "cp", "-a", h.Data, data)
		vars := append(slices.Clone(h.Vars), servicesOn(other)...)
		if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "restore", b.dir); r.Status != 0 {
			t.Fatalf("restore: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		serveAs(h, binary.Start(t, data, vars...), b.begun, b.ended, true)
	}
}

type backup struct {
	*harness.Harness
	dir          string
	moment       time.Duration // from the backup's start to the kill
	begun, ended int64
}

func (b *backup) make() {
	b.T.Helper()
	b.begun = b.Clock.Add(1)
	r := binary.Run(b.T, b.Server.Env, "backup", b.dir)
	b.ended = b.Clock.Add(1)
	if r.Status != 0 || r.Stderr != "" {
		b.T.Errorf("backup: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

func (b *backup) makeWhileServerDies() {
	var making sync.WaitGroup
	making.Go(b.make)
	harness.Pause(nil, b.moment)
	b.Server.Kill()
	making.Wait()
}

// makeAndKill kills a backup and makes another unless the first was complete.
func (b *backup) makeAndKill() {
	b.T.Helper()
	b.begun = b.Clock.Add(1)
	cmd := exec.Command(binary.Path(), "backup", b.dir)
	cmd.Env = b.Server.Env
	harness.Must(b.T, cmd.Start())
	harness.Pause(nil, b.moment)
	_ = cmd.Process.Kill() // fails only if the backup has exited
	_ = cmd.Wait()
	b.ended = b.Clock.Add(1)
	found, err := filepath.Glob(b.dir + "*")
	harness.Must(b.T, err)
	for _, path := range found {
		if path != b.dir && !strings.HasPrefix(path, b.dir+".partial-") {
			b.T.Errorf("killed backup left %s", path)
		}
	}
	if !slices.Contains(found, b.dir) {
		b.make()
	}
}

func wantNoFailures(h *harness.Harness) {
	h.T.Helper()
	for _, w := range h.Workloads {
		for _, lost := range w.Unanswered() {
			h.T.Errorf("no response: %s", lost)
		}
	}
}

func (b *backup) restore() {
	b.T.Helper()
	data := filepath.Join(b.T.TempDir(), "restored")
	r := binary.Run(b.T, binary.Environ(append(slices.Clone(b.Vars), "HOLDFAST_DATA="+data)...), "restore", b.dir)
	if r.Status != 0 {
		b.T.Fatalf("restore: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	serveAs(b.Harness, binary.Start(b.T, data, b.Vars...), b.begun, b.ended, true)
	harness.Must(b.T, errors.Join(os.RemoveAll(data), os.RemoveAll(b.dir))) // saves disk space in long runs
}

// serveAs checks that another server's data matches one moment between begun and ended. If leaps is set, the other
// server skips change numbers that the original may have assigned later.
func serveAs(h *harness.Harness, other *binary.Server, begun, ended int64, leaps bool) {
	h.T.Helper()
	live := h.Server
	h.Server = other
	for _, w := range h.Workloads {
		w.CheckCopy(h, begun, ended, leaps)
	}
	other.Kill()
	h.Server = live
}
