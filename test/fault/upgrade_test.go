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
)

// One release replaces another and may be rolled back without losing an acknowledged write. The
// next release is this one with another migration in every service, see next.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	newer := next(t)
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); rollingUpgrade(t, newer) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); upgradeInPlace(t, newer) })
	t.Run("SQLiteKilled", func(t *testing.T) { t.Parallel(); upgradeKilled(t, newer) })
}

// rollingUpgrade upgrades a database while a server of the previous release continues and fails no
// request.
func rollingUpgrade(t *testing.T, newer string) {
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), servicesOn(url)...)
	h.server = h.serve()
	old := h.server

	upgraded := binary.LaunchOf(t, newer, h.data, h.vars...)
	if why := upgraded.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("before the migration the next release says %q", why)
	}
	h.withoutFailures(0, func() {
		if r := binary.RunOf(t, newer, upgraded.Env, "migrate"); r.Status != 0 || strings.Count(r.Stdout, "_future") != len(services()) {
			t.Errorf("migrate: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		upgraded.Await("/readyz", http.StatusOK)
		h.await(h.load.after(100))
		old.Await("/readyz", http.StatusOK)
	})

	// Writers of one user use servers of both releases.
	h.second = upgraded
	h.withoutFailures(1, func() { h.await(h.load.after(300)) })

	h.server, h.second = upgraded, nil
	h.withoutFailures(2, func() {
		old.Signal(syscall.SIGTERM)
		<-old.Ended
		h.await(h.load.after(100))
	})
	if code := old.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old server ended with %d", code)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	for _, s := range services() {
		if s.next.written == "" {
			continue
		}
		var written int
		must(t, conn.QueryRow(t.Context(), s.next.written).Scan(&written))
		if written == 0 {
			t.Errorf("%s: the next release has written no record", s.name)
		}
	}
	must(t, conn.Close(t.Context()))
	h.tally.rounds = 3
	t.Log(&h.tally)
}

// withoutFailures lets all clients write during something that must not affect them.
func (h *harness) withoutFailures(round int, what func()) {
	h.t.Helper()
	h.round(round, fault{inject: what, recover: h.wantNoFailures})
	if n := h.tally.refused.Load(); n > 0 {
		h.t.Errorf("%d requests were refused", n)
	}
	if h.t.Failed() {
		h.t.FailNow()
	}
}

// upgradeInPlace upgrades, rolls back and upgrades the release on a file.
func upgradeInPlace(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t))
	h.server = h.serve()
	for round, path := range []string{newer, binary.Path(), newer} {
		h.round(round, fault{inject: func() {}, recover: func() {
			h.server.Signal(syscall.SIGTERM)
			<-h.server.Ended
			h.server = binary.LaunchOf(t, path, h.data, h.vars...)
			h.server.Await("/readyz", http.StatusOK)
		}})
		if t.Failed() {
			return
		}
	}
	h.tally.rounds = 3
	t.Log(&h.tally)
}

// upgradeKilled kills upgrades at any moment. Both releases can serve the result, which has all
// data.
func upgradeKilled(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t))
	h.server = h.serve()
	length := time.Second // of a migration
	h.withoutFailures(0, func() {})
	h.server.Kill() // it leaves a log that is not in the file yet
	n := killsOf(t)
	for i := range n {
		data := filepath.Join(t.TempDir(), "data")
		run(t, "cp", "-a", h.data, data)
		cmd := exec.Command(newer, "migrate")
		cmd.Env = binary.Environ(append(h.vars, "HOLDFAST_DATA="+data)...)
		start := time.Now()
		must(t, cmd.Start())
		if i > 0 {
			pause(nil, length*time.Duration(i)/time.Duration(n-1))
			_ = cmd.Process.Kill() // it may have ended
		}
		if err := cmd.Wait(); i == 0 {
			must(t, err)
			length = time.Since(start)
		}
		path := []string{newer, binary.Path()}[i%2]
		other := binary.LaunchOf(t, path, data, h.vars...)
		other.Await("/readyz", http.StatusOK)
		h.serveAs(other, h.clock.Add(1), h.clock.Add(1), false)
	}
}

// next builds the next release: this tree with the changes of every service. Its migrations only
// add, as every migration must.
func next(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	lay := func(path, text string) {
		file := filepath.Join(dir, fmt.Sprint(len(replace)))
		must(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root, path)] = file
	}
	for _, s := range services() {
		for backend, sql := range s.next.migrations {
			known, err := filepath.Glob(filepath.Join(root, backend, "migrations", "*.sql"))
			must(t, err)
			lay(fmt.Sprintf("%s/migrations/%04d_future.sql", backend, len(known)+1), sql)
		}
		for path, change := range s.next.code {
			before, err := os.ReadFile(filepath.Join(root, path))
			must(t, err)
			after := strings.Replace(string(before), change[0], change[1], 1)
			if after == string(before) {
				t.Fatalf("%s does not have %s", path, change[0])
			}
			lay(path, after)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	path := filepath.Join(dir, "holdfast")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", path, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}
