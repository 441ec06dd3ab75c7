package e2e

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

// manager returns the socket of a service manager (sd_notify).
func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(binary.Bound)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func wantWord(t *testing.T, conn *net.UnixConn, want string) {
	t.Helper()
	word := make([]byte, 256)
	n, err := conn.Read(word)
	if err != nil || string(word[:n]) != want {
		t.Fatalf("the service manager was told %q, %v; want %q", word[:n], err, want)
	}
}

// A service manager is notified when the server can be reached, and when it begins to stop. An
// abstract socket has a name that begins with @.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, socket := range []string{filepath.Join(dir, "notify"), "@" + dir} {
		conn := manager(t, socket)
		s := binary.Launch(t, t.TempDir(), "NOTIFY_SOCKET="+socket)
		wantWord(t, conn, "READY=1")
		if status, body := s.Get("/__version__"); status != http.StatusOK {
			t.Errorf("ready, and answers %d %s", status, body)
		}
		s.Signal(syscall.SIGTERM)
		wantWord(t, conn, "STOPPING=1")
		<-s.Ended
	}
}

// The server starts even if the manager does not listen.
func TestServiceManagerAway(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "nobody"))
	if out := s.Output.String(); !strings.Contains(out, "could not notify the service manager") {
		t.Errorf("the log does not say so:\n%s", out)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // a privileged port that no service has used for decades

	ready := binary.Start(t, t.TempDir())
	waits := binary.Launch(t, t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL=postgres://nobody@"+nobody+"/none")
	everywhere := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__ADMIN_LISTEN=:0")
	_, readyPort, _ := net.SplitHostPort(strings.TrimPrefix(ready.Admin, "http://"))
	_, everyPort, _ := net.SplitHostPort(strings.TrimPrefix(everywhere.Admin, "http://"))
	for _, tc := range []struct {
		name   string
		env    []string
		status int
		says   string
	}{
		{"ready", ready.Env, 0, "ok\n"},
		{"proxies are not asked", append(slices.Clip(ready.Env), "HTTP_PROXY=http://"+nobody, "HOLDFAST_SERVER__ADMIN_LISTEN=0.0.0.0:"+readyPort), 0, "ok\n"},
		{"an address without a host", append(slices.Clip(everywhere.Env), "HOLDFAST_SERVER__ADMIN_LISTEN=:"+everyPort), 0, "ok\n"},
		{"not ready", waits.Env, 1, "holdfast: not ready: syncstorage: "},
		{"not there", append(slices.Clip(ready.Env), "HOLDFAST_SERVER__ADMIN_LISTEN="+nobody), 1, "connection refused"},
		{"no admin listener", append(slices.Clip(ready.Env), "HOLDFAST_SERVER__ADMIN_LISTEN="), 1, "server.admin_listen is empty"},
	} {
		r := binary.Run(t, tc.env, "health")
		if r.Status != tc.status || !strings.Contains(r.Stdout+r.Stderr, tc.says) {
			t.Errorf("%s: status %d, %s%s", tc.name, r.Status, r.Stdout, r.Stderr)
		}
	}
}
