package harness

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

// Instance is a server whose secret for users is known to the test.
type Instance struct {
	T      *testing.T
	Server *binary.Server
	vars   []string
	Client *http.Client
	Users  []*syncload.User
}

// Start migrates the databases and starts a server. User IDs begin at 1.
func Start(t *testing.T, users int, data string, vars ...string) *Instance {
	t.Helper()
	vars = append(append(vars, "SYNC_MASTER_SECRET="+Secret, "SYNC_TOKENSERVER__ENABLED=false", "HOLDFAST_LOG__ACCESS=false"), ExtVars()...)
	binary.Migrate(t, data, vars...)
	h := &Instance{T: t, vars: vars, Server: binary.Start(t, data, vars...)}
	h.Client = &http.Client{Timeout: Bound, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(h.Client.CloseIdleConnections)
	for i := range users {
		h.Users = append(h.Users, NewUser(t, Secret, int64(i+1)))
	}
	return h
}

func (h *Instance) Credentials(u *syncload.User) syncload.Credentials {
	return u.Credentials(h.Server.URL)
}

// Send sends a request and fails unless the status is 200.
func (h *Instance) Send(u *syncload.User, method, path, body string) error {
	a, err := h.Credentials(u).SendBy(h.T.Context(), h.Client, method, path, body)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (h *Instance) Text(u *syncload.User, method, path, body string) []byte {
	h.T.Helper()
	return h.Wire(h.Request(u, method, path, body))
}

func (h *Instance) Request(u *syncload.User, method, path, body string) *http.Request {
	h.T.Helper()
	req, err := h.Credentials(u).Request(h.T.Context(), method, path, body)
	Must(h.T, err)
	return req
}

func (h *Instance) Wire(req *http.Request) []byte {
	h.T.Helper()
	var b bytes.Buffer
	Must(h.T, req.Write(&b))
	return b.Bytes()
}

// Dial connects to the server with a receive buffer of about this size.
func (h *Instance) Dial(buffer int) *net.TCPConn {
	h.T.Helper()
	return h.DialTo(strings.TrimPrefix(h.Server.URL, "http://"), buffer)
}

func (h *Instance) DialTo(address string, buffer int) *net.TCPConn {
	h.T.Helper()
	conn, err := connectTo(address, buffer)
	Must(h.T, err)
	h.T.Cleanup(func() { conn.Close() })
	return conn
}

func (h *Instance) connect(buffer int) (*net.TCPConn, error) {
	return connectTo(strings.TrimPrefix(h.Server.URL, "http://"), buffer)
}

func connectTo(address string, buffer int) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	return tcp, tcp.SetReadBuffer(buffer)
}

// Resident returns a line from the server's /proc/PID/status, e.g. VmRSS or VmHWM, in bytes.
func (h *Instance) Resident(line string) int64 {
	h.T.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", h.Server.Cmd.Process.Pid))
	if err != nil {
		h.withoutProc(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if kb, ok := strings.CutPrefix(s.Text(), line+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kb, "kB")), 10, 64)
			Must(h.T, err)
			return n << 10
		}
	}
	h.T.Fatalf("no line %s", line)
	return 0
}

func (h *Instance) withoutProc(err error) {
	h.T.Helper()
	if runtime.GOOS == "linux" {
		h.T.Fatal(err)
	}
	h.T.Skipf("run it with GOOS=linux, which has /proc: %v", err)
}

func (h *Instance) Sockets() (n int) {
	h.T.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", h.Server.Cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		h.withoutProc(err)
	}
	for _, f := range all {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// OtherClients are well-behaved clients during an attack.
type OtherClients struct {
	instance *Instance
	end      context.CancelFunc
	all      sync.WaitGroup
	mu       sync.Mutex
	took     []time.Duration
}

// Patience limits the p99 latency for OtherClients. It is far above the latencies on a busy machine and far below the
// server's timeouts.
const Patience = 5 * time.Second

// StartOthers starts a client for each of the last n users.
func (h *Instance) StartOthers(n int) *OtherClients {
	b := &OtherClients{instance: h}
	ctx, end := context.WithCancel(h.T.Context())
	b.end = end
	for _, u := range h.Users[len(h.Users)-n:] {
		b.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("/storage/tabs/%d", i%10)
				for _, r := range [][3]string{{http.MethodPut, path, `{"payload":"still here"}`}, {http.MethodGet, path, ""}, {http.MethodGet, "/storage/tabs?full=1", ""}} {
					start := time.Now()
					if err := h.Send(u, r[0], r[1], r[2]); err != nil {
						h.T.Errorf("another client: %v", err)
						return
					}
					b.mu.Lock()
					b.took = append(b.took, time.Since(start))
					b.mu.Unlock()
				}
				Pause(ctx.Done(), 100*time.Millisecond)
			}
		})
	}
	return b
}

// Stop stops the clients and checks their latencies.
func (b *OtherClients) Stop() {
	b.instance.T.Helper()
	b.end()
	b.all.Wait()
	slices.Sort(b.took)
	if len(b.took) == 0 {
		b.instance.T.Error("no other client got a response")
		return
	}
	p99 := b.took[len(b.took)*99/100]
	b.instance.T.Logf("%d requests of other clients: median %v, p99 %v, at most %v", len(b.took), b.took[len(b.took)/2], p99, b.took[len(b.took)-1])
	if p99 > Patience {
		b.instance.T.Errorf("the p99 of OtherClients is %v", p99)
	}
}

// Ended waits until the server exits with status 0.
func Ended(h *Harness) {
	h.T.Helper()
	Pause(h.Server.Ended, Bound)
	if !Closed(h.Server.Ended) {
		h.T.Errorf("the server is still running after %v", Bound)
		h.Server.Kill()
	} else if code := h.Server.Cmd.ProcessState.ExitCode(); code != 0 {
		h.T.Errorf("exit status %d", code)
	}
}

// Instance returns the server as an Instance, for requests outside the workload.
func (h *Harness) Instance() *Instance { return &Instance{T: h.T, Server: h.Server, Client: h.Client} }

// Loaded returns the number of requests in progress.
func Loaded(metrics string) (n int) {
	for _, found := range underWay.FindAllStringSubmatch(metrics, -1) {
		some, err := strconv.Atoi(found[1])
		if err != nil {
			return math.MaxInt
		}
		n += some
	}
	return n
}

var underWay = regexp.MustCompile(`(?m)^holdfast_http_requests\{.*\} (\d+)$`)

const Secret = "of the fault harness"

// ProbeUser is in no workload.
const ProbeUser = 1000

// NewUser returns a user with a token signed with secret.
func NewUser(t *testing.T, secret string, uid int64) *syncload.User {
	t.Helper()
	u, err := syncload.NewUser(secret, uid)
	Must(t, err)
	return u
}

// ExtSecret signs install tokens. ExtTenant owns the installs.
const (
	ExtSecret = "of the fault harness's extensions"
	ExtTenant = "7e4a4e1c-0000-4000-8000-000000000001"
)

// ExtVars makes a server accept these tokens.
func ExtVars() []string {
	return []string{"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + ExtSecret, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false", "HOLDFAST_EXTSTORAGE__TOKEN_MAX_LIFETIME=87600h"}
}
