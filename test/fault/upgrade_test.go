package fault

import (
	"encoding/json"
	"fmt"
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

// TestUpgrade checks that an upgrade, and a rollback to the previous release, lose no acknowledged write. The newer
// release is this tree with another migration in every service; see next.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	newer := next(t)
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); rollingUpgrade(t, newer) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); upgradeInPlace(t, newer) })
	t.Run("SQLiteKilled", func(t *testing.T) { t.Parallel(); upgradeKilled(t, newer) })
}

// rollingUpgrade upgrades a database while a server from the previous release continues without failing a request.
func rollingUpgrade(t *testing.T, newer string) {
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), servicesOn(url)...)
	h.Server = h.Serve()
	old := h.Server

	upgraded := binary.LaunchOf(t, newer, h.Data, h.Vars...)
	if why := upgraded.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("next release before the migration: %q", why)
	}
	withoutFailures(h, 0, func() {
		if r := binary.RunOf(t, newer, upgraded.Env, "migrate"); r.Status != 0 || strings.Count(r.Stdout, "_future") != len(services()) {
			t.Errorf("migrate: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		upgraded.Await("/readyz", http.StatusOK)
		h.Await(h.Load.After(20 * len(services())))
		old.Await("/readyz", http.StatusOK)
	})

	// A user's writers use both releases.
	h.Second = upgraded
	withoutFailures(h, 1, func() { h.Await(h.Load.After(60 * len(services()))) })

	h.Server, h.Second = upgraded, nil
	withoutFailures(h, 2, func() {
		old.Signal(syscall.SIGTERM)
		<-old.Ended
		h.Await(h.Load.After(20 * len(services())))
	})
	if code := old.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("old server exited with %d", code)
	}
	conn, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	for _, s := range services() {
		if s.Next.Written == "" {
			continue
		}
		var written int
		harness.Must(t, conn.QueryRow(t.Context(), s.Next.Written).Scan(&written))
		if written == 0 {
			t.Errorf("%s: the next release wrote no record", s.Name)
		}
	}
	harness.Must(t, conn.Close(t.Context()))
	h.Tally.Rounds = 3
	t.Log(&h.Tally)
}

func withoutFailures(h *harness.Harness, round int, what func()) {
	h.T.Helper()
	h.Round(round, harness.Fault{Inject: what, Recover: func() { wantNoFailures(h) }})
	if n := h.Tally.Refused.Load(); n > 0 {
		h.T.Errorf("%d requests were refused", n)
	}
	if h.T.Failed() {
		h.T.FailNow()
	}
}

func upgradeInPlace(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t))
	h.Server = h.Serve()
	for round, path := range []string{newer, binary.Path(), newer} {
		h.Round(round, harness.Fault{Inject: func() {}, Recover: func() {
			h.Server.Signal(syscall.SIGTERM)
			<-h.Server.Ended
			h.Server = binary.LaunchOf(t, path, h.Data, h.Vars...)
			h.Server.Await("/readyz", http.StatusOK)
		}})
		if t.Failed() {
			return
		}
	}
	h.Tally.Rounds = 3
	t.Log(&h.Tally)
}

// upgradeKilled kills upgrades at any moment. Both releases must be able to serve the result without losing data.
func upgradeKilled(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t))
	h.Server = h.Serve()
	length := time.Second
	withoutFailures(h, 0, func() {})
	h.Server.Kill() // leaves a log that is not in the database file yet
	n := killsOf(t)
	for i := range n {
		data := filepath.Join(t.TempDir(), "data")
		harness.Run(t, "cp", "-a", h.Data, data)
		cmd := exec.Command(newer, "migrate")
		cmd.Env = binary.Environ(append(h.Vars, "HOLDFAST_DATA="+data)...)
		start := time.Now()
		harness.Must(t, cmd.Start())
		if i > 0 {
			harness.Pause(nil, length*time.Duration(i)/time.Duration(n-1))
			_ = cmd.Process.Kill() // fails only if the process has exited
		}
		if err := cmd.Wait(); i == 0 {
			harness.Must(t, err)
			length = time.Since(start)
		}
		path := []string{newer, binary.Path()}[i%2]
		other := binary.LaunchOf(t, path, data, h.Vars...)
		other.Await("/readyz", http.StatusOK)
		serveAs(h, other, h.Clock.Add(1), h.Clock.Add(1), false)
	}
}

// next builds the next release: this tree with every service's changes. Its migrations only add, as every migration
// must.
func next(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	harness.Must(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	lay := func(path, text string) {
		file := filepath.Join(dir, fmt.Sprint(len(replace)))
		harness.Must(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root, path)] = file
	}
	for _, s := range services() {
		for backend, sql := range s.Next.Migrations {
			known, err := filepath.Glob(filepath.Join(root, backend, "migrations", "*.sql"))
			harness.Must(t, err)
			lay(fmt.Sprintf("%s/migrations/%04d_future.sql", backend, len(known)+1), sql)
		}
		for path, change := range s.Next.Code {
			before, err := os.ReadFile(filepath.Join(root, path))
			harness.Must(t, err)
			after := strings.Replace(string(before), change[0], change[1], 1)
			if after == string(before) {
				t.Fatalf("%s does not contain %s", path, change[0])
			}
			lay(path, after)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	harness.Must(t, err)
	harness.Must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	path := filepath.Join(dir, "holdfast")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", path, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}
