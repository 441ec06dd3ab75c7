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
	"holdfast/test/fault/harness"
)

// TestFullDisk fills the embedded database's disk during writes, and keeps it full while the server is killed, stops
// or starts, or while a command runs. Writes are refused, reads are not, and writes succeed again when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	testdb.SQLite(t) // counts the test
	d := harness.NewDisk(t, "64m")
	data := filepath.Join(d.Dir, "data")
	h := harness.New(t, withGuests(), false, data, "HOLDFAST_LOG__ACCESS=false")
	h.Server = h.Serve()
	full := func(round int) {
		d.Fill(h.Choice(round).IntN(40))
		h.Tally.Held++
		harness.Pause(h.Load.Refused, time.Second) // the log file may still use its allocated space
	}
	h.Rounds(5, func(round int) harness.Fault {
		switch round % 5 {
		default:
			return harness.Fault{Readable: true, Certain: true, Inject: func() {
				full(round)
				d.Free()
			}, Recover: func() {}}
		case 1:
			return harness.Fault{Readable: true, Certain: true, Inject: func() {
				full(round)
				runCommands(h, d)
				h.Server.Await("/readyz", http.StatusOK) // readers need the server
				d.Free()
			}, Recover: func() {}}
		case 2, 3, 4:
			end := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM}[round%5-2]
			return harness.Fault{Deadly: true, Inject: func() {
				full(round)
				h.Server.Signal(end)
				<-h.Server.Ended
			}, Recover: func() {
				if round%5 > 2 {
					startFull(h)
				}
				d.Free()
				h.Server = h.Serve()
			}}
		}
	})
	h.Injected()
}

// TestFullDiskOnPostgres fills the database server's disk. PostgreSQL refuses writes that need space, and crashes if
// its WAL needs space. If PostgreSQL does not start on the full disk, the operator frees space and starts it.
func TestFullDiskOnPostgres(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	if !harness.Private(t) {
		return
	}
	d := harness.NewDisk(t, "160m")
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{
		Durable: true, Dir: d.Dir,
		Initdb: []string{"--wal-segsize=1"}, Settings: []string{"min_wal_size=2MB", "max_wal_size=4MB"},
	})
	o := newOutage(t, db.URL(), db.URL())
	fell, lay := 0, 0
	o.Rounds(2, func(round int) harness.Fault {
		return harness.Fault{Inject: func() {
			d.Fill(o.Choice(round).IntN(40))
			harness.Pause(o.Load.Refused, 100*time.Millisecond)
			if round%2 == 1 {
				ctx, cancel := context.WithTimeout(t.Context(), harness.Bound)
				defer cancel()
				for err := error(nil); err == nil; {
					_, err = o.admin.Exec(ctx, `SELECT pg_logical_emit_message(false, '', repeat('x', 100000))`)
				}
				harness.Pause(o.Load.Refused, harness.Bound)
				fell++
			}
			d.Free()
		}, Recover: func() {
			if o.restart(db) {
				lay++
			}
			o.recovered()
		}}
	})
	t.Logf("the database crashed %d times, and needed the operator to restart %d times", fell, lay)
	o.End()
}

func (o *outage) restart(db *testdb.PostgresServer) (ended bool) {
	o.T.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); ; <-tick.C {
		if harness.Closed(db.Ended()) {
			ended = true
			harness.Must(o.T, db.Stop()) // lets testdb notice the crash
			harness.Must(o.T, db.Start())
		}
		conn, err := pgx.Connect(o.T.Context(), o.url)
		if err == nil {
			harness.Must(o.T, conn.Close(o.T.Context()))
			o.connect()
			return ended
		}
		if time.Now().After(deadline) {
			o.T.Fatal(err)
		}
	}
}

// startFull starts a server, which must either serve or exit with an error that names the full disk.
func startFull(h *harness.Harness) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), harness.Bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary.Path(), "serve")
	cmd.Env = h.Server.Env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	harness.Must(h.T, err)
	harness.Must(h.T, cmd.Start())
	serves := false
	for lines := bufio.NewScanner(stdout); !serves && lines.Scan(); {
		serves = strings.Contains(lines.Text(), "clients")
	}
	if serves {
		_ = cmd.Process.Kill() // fails only if the process has exited
	}
	_ = cmd.Wait()
	if ctx.Err() != nil || !serves && !refusal(cmd.ProcessState.ExitCode(), stderr.String()) {
		h.T.Errorf("serve on a full disk: %v\n%s", cmd.ProcessState, &stderr)
	}
}

func refusal(status int, stderr string) bool {
	_, stderr, found := strings.Cut("\n"+stderr, "\nholdfast: ")
	if status != 1 || !found {
		return false
	}
	for line := range strings.Lines(stderr) {
		if !strings.Contains(line, "disk is full") && !strings.Contains(line, "no space left") {
			return false
		}
	}
	return true
}

// runCommands runs operator commands on the full disk. Commands that only read must succeed.
func runCommands(h *harness.Harness, d *harness.Disk) {
	h.T.Helper()
	elsewhere := filepath.Join(h.T.TempDir(), "backup")
	for _, args := range [][]string{{"backup", elsewhere}, {"migrate"}, {"sweep"}} {
		if r := binary.Run(h.T, h.Server.Env, args...); r.Status != 0 && !refusal(r.Status, r.Stderr) {
			h.T.Errorf("%v on a full disk: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
		}
	}
	// Commands that write may succeed, because a little space may be left.
	here := filepath.Join(d.Dir, "backup")
	r := binary.Run(h.T, h.Server.Env, "backup", here)
	left, err := filepath.Glob(here + "*")
	harness.Must(h.T, err)
	if r.Status != 0 && (!refusal(r.Status, r.Stderr) || len(left) > 0) {
		h.T.Errorf("backup to a full disk: status %d, left %v\n%s%s", r.Status, left, r.Stdout, r.Stderr)
	}
	harness.Must(h.T, os.RemoveAll(here))
}

// TestBeginOnFullDisk checks that a first start without space fails with a clear error and does not break the next
// start.
func TestBeginOnFullDisk(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	d := harness.NewDisk(t, "8m")
	const most = 24 // pages; enough for a first start
	rounds := min(int(harness.Number(t, "FAULT_ROUNDS", 8)), most)
	for round := range rounds {
		leave := round * most / rounds
		data := binary.UsedData(t, filepath.Join(d.Dir, "data"))
		env := binary.Environ("HOLDFAST_DATA=" + data)
		d.Fill(leave)
		for range 2 {
			if r := binary.Run(t, env, "migrate"); r.Status != 0 && !refusal(r.Status, r.Stderr) {
				t.Errorf("migrate with %d pages left: status %d\n%s%s", leave, r.Status, r.Stdout, r.Stderr)
			}
		}
		d.Free()
		if r := binary.Run(t, env, "migrate"); r.Status != 0 {
			t.Errorf("migrate after %d pages were left: status %d\n%s%s", leave, r.Status, r.Stdout, r.Stderr)
		}
		harness.Must(t, os.RemoveAll(data))
	}
}
