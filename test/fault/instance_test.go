package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

// instance is a server with users whose secret is known to the test.
type instance struct {
	t      *testing.T
	server *binary.Server
	vars   []string
	client *http.Client
	users  []*syncload.User
}

// startInstance migrates and starts a server. Users have the IDs from 1 on.
func startInstance(t *testing.T, users int, data string, vars ...string) *instance {
	t.Helper()
	vars = append(append(vars, "SYNC_MASTER_SECRET="+secret, "SYNC_TOKENSERVER__ENABLED=false", "HOLDFAST_LOG__ACCESS=false"), extVars()...)
	binary.Migrate(t, data, vars...)
	h := &instance{t: t, vars: vars, server: binary.Start(t, data, vars...)}
	h.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(h.client.CloseIdleConnections)
	for i := range users {
		h.users = append(h.users, newUser(t, secret, int64(i+1)))
	}
	return h
}

func (h *instance) credentials(u *syncload.User) syncload.Credentials {
	return u.Credentials(h.server.URL)
}

// send sends a request and expects status 200.
func (h *instance) send(u *syncload.User, method, path, body string) error {
	a, err := h.credentials(u).SendBy(h.t.Context(), h.client, method, path, body)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// text returns a signed request in wire format.
func (h *instance) text(u *syncload.User, method, path, body string) []byte {
	h.t.Helper()
	return h.wire(h.request(u, method, path, body))
}

// request returns a signed request.
func (h *instance) request(u *syncload.User, method, path, body string) *http.Request {
	h.t.Helper()
	req, err := h.credentials(u).Request(h.t.Context(), method, path, body)
	must(h.t, err)
	return req
}

// wire returns a request in wire format.
func (h *instance) wire(req *http.Request) []byte {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, req.Write(&b))
	return b.Bytes()
}

// dial connects to the server, with a receive buffer of about so many bytes.
func (h *instance) dial(buffer int) *net.TCPConn {
	h.t.Helper()
	return h.dialTo(strings.TrimPrefix(h.server.URL, "http://"), buffer)
}

// dialTo is dial to another listener of the server.
func (h *instance) dialTo(address string, buffer int) *net.TCPConn {
	h.t.Helper()
	conn, err := connectTo(address, buffer)
	must(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// connect is dial for any goroutine. The caller closes the connection.
func (h *instance) connect(buffer int) (*net.TCPConn, error) {
	return connectTo(strings.TrimPrefix(h.server.URL, "http://"), buffer)
}

func connectTo(address string, buffer int) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	return tcp, tcp.SetReadBuffer(buffer)
}

// resident returns a line of the server's /proc/PID/status, such as VmRSS or VmHWM, in bytes.
func (h *instance) resident(line string) int64 {
	h.t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", h.server.Cmd.Process.Pid))
	if err != nil {
		h.t.Skipf("needs /proc, to read the memory of the server: %v", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if kb, ok := strings.CutPrefix(s.Text(), line+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kb, "kB")), 10, 64)
			must(h.t, err)
			return n << 10
		}
	}
	h.t.Fatalf("no line %s", line)
	return 0
}

// sockets counts the open sockets of the server.
func (h *instance) sockets() (n int) {
	h.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", h.server.Cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		h.t.Skipf("needs /proc, to count the sockets of the server: %v", err)
	}
	for _, f := range all {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// otherClients are well-behaved clients during an attack.
type otherClients struct {
	instance *instance
	end      context.CancelFunc
	all      sync.WaitGroup
	mu       sync.Mutex
	took     []time.Duration
}

// patience limits the p99 of otherClients. It is far above the times on a busy machine, and far
// below the timeouts of the server.
const patience = 5 * time.Second

// startOthers lets clients write, read and list, one for each of the last n users, until stop is
// called.
func (h *instance) startOthers(n int) *otherClients {
	b := &otherClients{instance: h}
	ctx, end := context.WithCancel(h.t.Context())
	b.end = end
	for _, u := range h.users[len(h.users)-n:] {
		b.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("/storage/tabs/%d", i%10)
				for _, r := range [][3]string{{http.MethodPut, path, `{"payload":"still here"}`}, {http.MethodGet, path, ""}, {http.MethodGet, "/storage/tabs?full=1", ""}} {
					start := time.Now()
					if err := h.send(u, r[0], r[1], r[2]); err != nil {
						h.t.Errorf("a other client: %v", err)
						return
					}
					b.mu.Lock()
					b.took = append(b.took, time.Since(start))
					b.mu.Unlock()
				}
				pause(ctx.Done(), 100*time.Millisecond)
			}
		})
	}
	return b
}

// stop stops the clients and checks their latencies.
func (b *otherClients) stop() {
	b.instance.t.Helper()
	b.end()
	b.all.Wait() // requests are bounded
	slices.Sort(b.took)
	if len(b.took) == 0 {
		b.instance.t.Error("no other client was answered")
		return
	}
	p99 := b.took[len(b.took)*99/100]
	b.instance.t.Logf("%d requests of other clients: median %v, p99 %v, at most %v", len(b.took), b.took[len(b.took)/2], p99, b.took[len(b.took)-1])
	if p99 > patience {
		b.instance.t.Errorf("the p99 of otherClients is %v", p99)
	}
}
