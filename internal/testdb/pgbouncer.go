package testdb

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const bouncerScript = `"$1" -q "$2" & pid=$!; cat >/dev/null; kill "$pid"; wait "$pid"; rm -rf "$3"`

// PgBouncerCancels reports whether the installed PgBouncer survives cancelled statements under load; 1.18 does not.
func PgBouncerCancels(t testing.TB) bool {
	t.Helper()
	out, err := exec.Command(findBouncer(t), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return major > 1 || minor >= 19
}

// findBouncer skips the test if PgBouncer is not installed, or fails it if TEST_REQUIRE names it.
func findBouncer(t testing.TB) string {
	t.Helper()
	leaveToCheck(t, EnginePgBouncer)
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/pgbouncer") // Debian's path, not in users' PATH
	}
	if err != nil {
		absent(t, EnginePgBouncer, Install("pgbouncer"))
	}
	return path
}

// PgBouncer starts a PgBouncer in transaction mode without prepared statements, and returns the database's URL through
// it. base must use a Unix socket, like testdb's own servers.
func PgBouncer(t testing.TB, base string, connections int) string {
	t.Helper()
	path := findBouncer(t)
	u := parse(t, base)
	host := u.Query().Get("host")
	if !filepath.IsAbs(host) {
		t.Skip("needs a PostgreSQL server with a Unix socket: PgBouncer is configured for one; unset TEST_POSTGRES_URL to let the test start its own")
	}
	attr, owner, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := shortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := fmt.Sprintf("[databases]\n* = host=%s user=%s\n[pgbouncer]\npool_mode = transaction\ndefault_pool_size = %d\n"+
		"auth_type = any\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = 6432\nmax_client_conn = 200\nlogfile = %s\n",
		host, u.User.Username(), connections, dir, filepath.Join(dir, "log"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if owner != nil {
		for _, name := range []string{dir, file} {
			if err := os.Chown(name, int(owner.Uid), int(owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command("/bin/sh", "-c", bouncerScript, "sh", path, file, dir)
	cmd.SysProcAttr, cmd.Dir = attr, "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said, err := os.ReadFile(filepath.Join(dir, "log")); err == nil && t.Failed() {
			t.Logf("PgBouncer said:\n%s", said)
		}
		_ = pipe.Close()
		_ = cmd.Wait()
	})
	awaitSocket(t, filepath.Join(dir, ".s.PGSQL.6432"), filepath.Join(dir, "log"))
	ran(t, EnginePgBouncer)
	q := url.Values{"host": {dir}, "port": {"6432"}}
	return (&url.URL{Scheme: u.Scheme, User: u.User, Path: u.Path, RawQuery: q.Encode()}).String()
}

// shortDir creates a folder with a short name. If it contained a test's name, the socket path would be too long.
func shortDir() (string, error) { return os.MkdirTemp("", "holdfast-pgb-") }

// awaitSocket connects, because the socket file exists a moment before PgBouncer listens.
func awaitSocket(t testing.TB, path, log string) {
	t.Helper()
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			said, _ := os.ReadFile(log)
			t.Fatalf("PgBouncer does not start:\n%s", said)
		}
	}
}
