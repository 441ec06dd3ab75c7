package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

// manager returns the service manager's socket (sd_notify).
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
		t.Fatalf("the service manager was notified of %q, %v; want %q", word[:n], err, want)
	}
}

// TestServiceManager checks that the server notifies its service manager when it is reachable and when it stops. An
// abstract socket's name begins with @.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, socket := range []string{filepath.Join(dir, "notify"), "@" + dir} {
		conn := manager(t, socket)
		s := binary.Launch(t, t.TempDir(), "NOTIFY_SOCKET="+socket)
		wantWord(t, conn, "READY=1")
		if status, body := s.Get("/__version__"); status != http.StatusOK {
			t.Errorf("ready, but answers %d %s", status, body)
		}
		s.Signal(syscall.SIGTERM)
		wantWord(t, conn, "STOPPING=1")
		<-s.Ended
	}
}

// TestReload checks that SIGHUP applies the settings that can change at run time, names the others, and notifies the
// service manager.
func TestReload(t *testing.T) {
	t.Parallel()
	file, socket := filepath.Join(t.TempDir(), "holdfast.toml"), filepath.Join(t.TempDir(), "notify")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	conn := manager(t, socket)
	s := binary.Launch(t, t.TempDir(), "NOTIFY_SOCKET="+socket, "HOLDFAST_CONFIG="+file)
	wantWord(t, conn, "READY=1")
	reload := func(text string) {
		t.Helper()
		write(text)
		s.Signal(syscall.SIGHUP)
		word := make([]byte, 256)
		n, err := conn.Read(word)
		if lines := strings.Split(string(word[:n]), "\n"); err != nil || lines[0] != "RELOADING=1" || len(lines) < 2 || !strings.HasPrefix(lines[1], "MONOTONIC_USEC=") {
			t.Fatalf("the service manager was notified of %q, %v", word[:n], err)
		}
		wantWord(t, conn, "READY=1")
	}
	const link = "https://docs.example/reloaded"
	reload("server.documents_link = \"" + link + "\"\nbuckets.region = \"there\"\n")
	if _, body := s.Get("/"); !strings.Contains(body, link) {
		t.Errorf("not applied:\n%s", body)
	}
	reload("server.documents_link = 1")
	if _, body := s.Get("/"); !strings.Contains(body, link) {
		t.Errorf("an invalid configuration was applied:\n%s", body)
	}
	s.Signal(syscall.SIGTERM)
	wantWord(t, conn, "STOPPING=1")
	<-s.Ended
	for _, want := range []string{"settings applied", "server.documents_link", "settings need a restart", "buckets.region", "reload refused"} {
		if out := s.Output.String(); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestServiceManagerAway checks that the server starts even if the manager does not listen.
func TestServiceManagerAway(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "nobody"))
	if out := s.Output.String(); !strings.Contains(out, "could not notify the service manager") {
		t.Errorf("the log does not say so:\n%s", out)
	}
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	conn := manager(t, socket)
	s := binary.Launch(t, t.TempDir(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=30000")
	wantWord(t, conn, "READY=1")
	for range 5 {
		wantWord(t, conn, "WATCHDOG=1")
	}
	s.Kill()
}

func socket(t *testing.T) (f *os.File, address string) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	f, err = l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() { f.Close() })
	return f, l.Addr().String()
}

// retried lets Go's client send a write again after a connection failed that had served other requests: an empty
// Idempotency-Key marks it as idempotent. A server cannot see that a request is on its way when it closes an idle
// connection, so clients repeat such requests (RFC 9110, section 9.2.2). A request on a new connection is not repeated.
type retried struct{ http.RoundTripper }

func (c retried) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header["Idempotency-Key"] = []string{}
	return c.RoundTripper.RoundTrip(r)
}

// TestRestartUnderLoad checks that systemd's sockets stay open during a restart: clients wait, none is refused, and no
// acknowledged write is lost.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	clients, address := socket(t)
	s3, s3Address := socket(t)
	start := func() *binary.Server {
		s := binary.LaunchSockets(t, []*os.File{clients, s3}, data, "HOLDFAST_SERVER__LISTEN="+address, "HOLDFAST_BUCKETS__LISTEN="+s3Address)
		s.Await("/readyz", http.StatusOK)
		return s
	}
	s := start()
	var written [4]atomic.Int64
	users := make([]binary.Credentials, len(written))
	for i := range users {
		users[i] = s.Token(int64(i + 1))
	}
	stop := make(chan struct{})
	acknowledged := make(chan struct{})
	var load sync.WaitGroup
	for i := range written {
		transport := &http.Transport{DisableKeepAlives: i%2 == 0}
		load.Go(func() {
			defer transport.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := written[i].Load() + 1
				a, err := users[i].SendBy(t.Context(), &http.Client{Transport: retried{transport}}, "PUT", fmt.Sprintf("/storage/tabs/%d", n), `{"payload":"x"}`)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("client %d, write %d: %d %s %v", i, n, a.Status, a.Body, err)
					return
				}
				written[i].Store(n)
				select {
				case acknowledged <- struct{}{}:
				default: // nothing receives during a restart
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { load.Wait(); close(ended) }()
	const restarts = 20
	for range restarts {
		for range 20 {
			select {
			case <-acknowledged:
			case <-ended:
				t.FailNow()
			}
		}
		s.Signal(syscall.SIGTERM)
		<-s.Ended
		s = start()
	}
	close(stop)
	<-ended
	var total int64
	for i, c := range users {
		total += written[i].Load()
		want := fmt.Sprintf(`{"tabs":%d}`, written[i].Load())
		if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != want {
			t.Errorf("client %d: %s; acknowledged %s", i, a.Body, want)
		}
	}
	t.Logf("%d restarts, %d writes", restarts, total)
}

// TestUnusedSocket checks that the server refuses a socket without a setting, because its clients would wait forever.
func TestUnusedSocket(t *testing.T) {
	t.Parallel()
	f, address := socket(t)
	r := binary.RunSockets(t, []*os.File{f}, binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0",
		"HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"))
	if r.Status != 1 || !strings.Contains(r.Stderr, "systemd listens on "+address+" for this server, but no setting uses this address") {
		t.Errorf("%d %s%s", r.Status, r.Stdout, r.Stderr)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // a privileged port without a service

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
