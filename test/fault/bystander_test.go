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

	"holdfast/test/binary"
)

// house is a server with users, whose secret is known, and nothing else.
type house struct {
	t      *testing.T
	server *binary.Server
	vars   []string
	client *http.Client
	users  []*user
}

// openHouse migrates and starts a server. Users have the ids from 1 on.
func openHouse(t *testing.T, users int, data string, vars ...string) *house {
	t.Helper()
	vars = append(append(vars, "SYNC_MASTER_SECRET="+secret, "SYNC_TOKENSERVER__ENABLED=false", "HOLDFAST_LOG__ACCESS=false"), extVars()...)
	if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	h := &house{t: t, vars: vars, server: binary.Start(t, data, vars...)}
	h.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(h.client.CloseIdleConnections)
	for i := range users {
		h.users = append(h.users, newUser(t, secret, int64(i+1)))
	}
	return h
}

func (h *house) credentials(u *user) binary.Credentials {
	return binary.Credentials{ID: u.id, Key: u.key, Endpoint: h.server.URL + u.path}
}

// send sends a request that must be answered with 200.
func (h *house) send(u *user, method, path, body string) error {
	a, err := h.credentials(u).SendBy(h.t.Context(), h.client, method, path, body)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// text is a signed request as it goes over the wire.
func (h *house) text(u *user, method, path, body string) []byte {
	h.t.Helper()
	return h.wire(h.request(u, method, path, body))
}

// request is a signed request.
func (h *house) request(u *user, method, path, body string) *http.Request {
	h.t.Helper()
	req, err := h.credentials(u).Request(h.t.Context(), method, path, body)
	must(h.t, err)
	return req
}

// wire is a request as it goes over the wire.
func (h *house) wire(req *http.Request) []byte {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, req.Write(&b))
	return b.Bytes()
}

// dial connects to the server. The system takes so many bytes of its answers
// before they are read, and some more.
func (h *house) dial(buffer int) *net.TCPConn {
	h.t.Helper()
	conn, err := h.connect(buffer)
	must(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// connect is dial from any goroutine. The caller closes the connection.
func (h *house) connect(buffer int) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.server.URL, "http://"))
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	return tcp, tcp.SetReadBuffer(buffer)
}

// resident is a line of what the system knows of the server's memory, such as
// VmRSS or VmHWM, in bytes.
func (h *house) resident(line string) int64 {
	h.t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", h.server.Cmd.Process.Pid))
	if err != nil {
		h.t.Skipf("the system does not tell of the memory of a process: %v", err)
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

// sockets is how many connections the server has open.
func (h *house) sockets() (n int) {
	h.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", h.server.Cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		h.t.Skipf("the system does not tell of the files of a process: %v", err)
	}
	for _, f := range all {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// bystanders are clients that behave, beside some that do not.
type bystanders struct {
	house *house
	end   context.CancelFunc
	all   sync.WaitGroup
	mu    sync.Mutex
	took  []time.Duration
}

// patience is what a request of a bystander may take. It is far above what a
// busy machine makes of it, and far below the bounds of the server's waits.
const patience = 5 * time.Second

// bystand lets clients write, read and list, one each for the house's last
// users, until stop is called.
func (h *house) bystand(n int) *bystanders {
	b := &bystanders{house: h}
	ctx, end := context.WithCancel(h.t.Context())
	b.end = end
	for _, u := range h.users[len(h.users)-n:] {
		b.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("/storage/tabs/%d", i%10)
				for _, r := range [][3]string{{http.MethodPut, path, `{"payload":"still here"}`}, {http.MethodGet, path, ""}, {http.MethodGet, "/storage/tabs?full=1", ""}} {
					start := time.Now()
					if err := h.send(u, r[0], r[1], r[2]); err != nil {
						h.t.Errorf("a bystander: %v", err)
						return
					}
					b.mu.Lock()
					b.took = append(b.took, time.Since(start))
					b.mu.Unlock()
				}
				pause(ctx.Done(), 20*time.Millisecond)
			}
		})
	}
	return b
}

// stop ends the bystanders and says what they have met.
func (b *bystanders) stop() {
	b.house.t.Helper()
	b.end()
	b.all.Wait() // requests are bounded
	slices.Sort(b.took)
	if len(b.took) == 0 {
		b.house.t.Error("no bystander was answered")
		return
	}
	p99 := b.took[len(b.took)*99/100]
	b.house.t.Logf("%d requests of bystanders: median %v, p99 %v, at most %v", len(b.took), b.took[len(b.took)/2], p99, b.took[len(b.took)-1])
	if p99 > patience {
		b.house.t.Errorf("the p99 of bystanders is %v", p99)
	}
}
