package fault

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// The disk of the embedded database fills up during writes, and is full while the server is
// killed, stops or starts, or a command runs. Writes are refused and reads are not. Writes succeed
// again when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !private(t) {
		return
	}
	testdb.SQLite(t) // it counts the test
	d := newDisk(t, "64m")
	data := filepath.Join(d.dir, "data")
	h := harnessOf(t, withGuests(), false, data, "HOLDFAST_LOG__ACCESS=false")
	h.server = h.serve()
	full := func(round int) {
		d.fill(h.choice(round).IntN(40))
		h.tally.held++
		pause(h.load.refused, time.Second) // the log file may still use the space that it has
	}
	h.rounds(5, func(round int) fault {
		switch round % 5 {
		default:
			return fault{readable: true, certain: true, inject: func() {
				full(round)
				d.free()
			}, recover: func() {}}
		case 1:
			return fault{readable: true, certain: true, inject: func() {
				full(round)
				h.commands(d)
				h.server.Await("/readyz", http.StatusOK) // for the readers
				d.free()
			}, recover: func() {}}
		case 2, 3, 4:
			end := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM}[round%5-2]
			return fault{deadly: true, inject: func() {
				full(round)
				h.server.Signal(end)
				<-h.server.Ended
			}, recover: func() {
				if round%5 > 2 {
					h.startFull()
				}
				d.free()
				h.server = h.serve()
			}}
		}
	})
	h.injected()
}

// The disk of the database server fills up. The server refuses what needs space, and crashes when
// its log needs some. If it does not start on the full disk, the operator makes space and starts
// it.
func TestFullDiskOnPostgres(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	if !private(t) {
		return
	}
	d := newDisk(t, "160m")
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{
		Durable: true, Dir: d.dir,
		Initdb: []string{"--wal-segsize=1"}, Settings: []string{"min_wal_size=2MB", "max_wal_size=4MB"},
	})
	o := newOutage(t, db.URL(), db.URL())
	fell, lay := 0, 0
	o.rounds(2, func(round int) fault {
		return fault{inject: func() {
			d.fill(o.choice(round).IntN(40))
			pause(o.load.refused, 100*time.Millisecond)
			if round%2 == 1 {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				for err := error(nil); err == nil; { // the log still uses the space that it has
					_, err = o.admin.Exec(ctx, `SELECT pg_logical_emit_message(false, '', repeat('x', 100000))`)
				}
				pause(o.load.refused, bound)
				fell++
			}
			d.free()
		}, recover: func() {
			if o.restart(db) {
				lay++
			}
			o.recovered()
		}}
	})
	t.Logf("the database crashed %d times, and did not restart by itself %d times", fell, lay)
	o.end()
}

// restart starts the database if it has ended, and returns when it is ready.
func (o *outage) restart(db *testdb.PostgresServer) (ended bool) {
	o.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); ; <-tick.C {
		if closed(db.Ended()) {
			ended = true
			must(o.t, db.Stop()) // now testdb knows that it has ended
			must(o.t, db.Start())
		}
		conn, err := pgx.Connect(o.t.Context(), o.url)
		if err == nil {
			must(o.t, conn.Close(o.t.Context()))
			o.connect()
			return ended
		}
		if time.Now().After(deadline) {
			o.t.Fatal(err)
		}
	}
}

// startFull starts a server on the full disk: it serves, or it ends with an error that names the
// cause.
func (h *harness) startFull() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary.Path(), "serve")
	cmd.Env = h.server.Env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	must(h.t, err)
	must(h.t, cmd.Start())
	serves := false
	for lines := bufio.NewScanner(stdout); !serves && lines.Scan(); {
		serves = strings.Contains(lines.Text(), "clients")
	}
	if serves {
		_ = cmd.Process.Kill() // it may end by itself
	}
	_ = cmd.Wait() // the status is checked below
	if ctx.Err() != nil || !serves && !refusal(cmd.ProcessState.ExitCode(), stderr.String()) {
		h.t.Errorf("serve on a full disk: %v\n%s", cmd.ProcessState, &stderr)
	}
}

// refusal reports whether a command ended with an error about the disk.
func refusal(status int, stderr string) bool {
	_, stderr, found := strings.Cut("\n"+stderr, "\nholdfast: ") // after lines of the log
	if status != 1 || !found {
		return false
	}
	for line := range strings.Lines(stderr) { // of each service
		if !strings.Contains(line, "disk is full") && !strings.Contains(line, "no space left") {
			return false
		}
	}
	return true
}

// commands runs the operator's commands while the disk is full. Those that write nothing to it
// succeed.
func (h *harness) commands(d *disk) {
	h.t.Helper()
	elsewhere := filepath.Join(h.t.TempDir(), "backup")
	for _, args := range [][]string{{"backup", elsewhere}, {"migrate"}, {"sweep"}} {
		if r := binary.Run(h.t, h.server.Env, args...); r.Status != 0 && !refusal(r.Status, r.Stderr) {
			h.t.Errorf("%v on a full disk: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
		}
	}
	// Those that write to it may succeed: sometimes a little space is left.
	here := filepath.Join(d.dir, "backup")
	r := binary.Run(h.t, h.server.Env, "backup", here)
	left, err := filepath.Glob(here + "*")
	must(h.t, err)
	if r.Status != 0 && (!refusal(r.Status, r.Stderr) || len(left) > 0) {
		h.t.Errorf("backup to a full disk: status %d, left %v\n%s%s", r.Status, left, r.Stdout, r.Stderr)
	}
	must(h.t, os.RemoveAll(here))
}

// A first start without space fails with a clear error, and leaves nothing that makes the next one
// fail.
func TestBeginOnFullDisk(t *testing.T) {
	t.Parallel()
	if !private(t) {
		return
	}
	d := newDisk(t, "8m")
	const most = 24 // pages that are enough for a first start
	rounds := min(int(number(t, "FAULT_ROUNDS", 8)), most)
	for round := range rounds {
		leave := round * most / rounds
		data := filepath.Join(d.dir, "data")
		env := binary.Environ("HOLDFAST_DATA=" + data)
		d.fill(leave)
		for range 2 {
			if r := binary.Run(t, env, "migrate"); r.Status != 0 && !refusal(r.Status, r.Stderr) {
				t.Errorf("migrate with %d pages left: status %d\n%s%s", leave, r.Status, r.Stdout, r.Stderr)
			}
		}
		d.free()
		if r := binary.Run(t, env, "migrate"); r.Status != 0 {
			t.Errorf("migrate after %d pages were left: status %d\n%s%s", leave, r.Status, r.Stdout, r.Stderr)
		}
		must(t, os.RemoveAll(data))
	}
}
