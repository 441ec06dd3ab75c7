package app

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
	"holdfast/internal/web/webtest"
)

const (
	chargedClients = 6
	uncharged      = 24 << 10 // bytes per request that are not charged: its header, its handler, short buffers
	mostList       = 1 << 20  // maximum bytes of a bucket or object list
)

// bodyLengths are tried until a route accepts a length.
var bodyLengths = []int{1 << 20, 60 << 10, 14 << 10}

type chargedWalk struct {
	*walk

	tokens          map[string]string
	hawkID, hawkKey string
	guest, operator string
	uploadID, batch string
	keys            atomic.Int64
	now             atomic.Pointer[route]
}

type route struct {
	listener, method, path string

	body  string
	media string
	least int // minimum bytes of the largest response; 0: short

	condition string // If-None-Match header, or ""
}

func (r *route) String() string { return r.listener + ": " + r.method + " " + r.path }

// stalledClient is an http.ResponseWriter and a request body whose client stops reading and sending.
type stalledClient struct {
	header  http.Header
	status  int
	sent    int
	held    bool   // the server waits for the rest of the body
	stalled func() // called before the first byte of a response, and instead of the end of a body
}

func (c *stalledClient) Header() http.Header    { return c.header }
func (c *stalledClient) WriteHeader(status int) { c.status = status }

func (c *stalledClient) Write(p []byte) (int, error) {
	if c.sent == 0 {
		c.stalled()
	}
	c.sent += len(p)
	return len(p), nil
}

func (c *stalledClient) Read([]byte) (int, error) {
	c.held = true
	c.stalled()
	return 0, io.ErrUnexpectedEOF
}

// measured is the growth in heap and charged memory while several clients stall, and a response.
type measured struct {
	heap, charged int64
	*stalledClient
}

func (w *chargedWalk) measure(r *route, cut bool) measured {
	w.t.Helper()
	serve := func(stalled func()) *stalledClient {
		c := &stalledClient{header: http.Header{}, status: http.StatusOK, stalled: stalled}
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				w.t.Errorf("%s: %v", r, p)
			}
		}()
		w.listeners[r.listener].ServeHTTP(c, w.request(r, cut, c))
		return c
	}
	w.now.Store(r)
	first := serve(func() {}) // prepares statements and fills caches
	w.now.Store(nil)
	if first.status == http.StatusRequestEntityTooLarge {
		return measured{stalledClient: first}
	}
	before, used := webtest.HeapBytes(), w.used()
	var all sync.WaitGroup
	reached, release := make(chan struct{}, chargedClients), make(chan struct{})
	for range chargedClients {
		all.Go(func() {
			var once sync.Once
			reach := func() { once.Do(func() { reached <- struct{}{} }) }
			serve(func() { reach(); <-release })
			reach()
		})
	}
	for range chargedClients {
		<-reached
	}
	heap, charged := webtest.HeapBytes()-before, w.used()-used
	close(release)
	all.Wait()
	if left := w.used(); left != 0 {
		w.t.Errorf("%s: %d bytes are still charged", r, left)
	}
	return measured{heap, charged, first}
}

// watchStatements fails for statements by requests without a slot. The admin listener has no gate, and heartbeats
// share a check.
func (w *chargedWalk) watchStatements() {
	w.app.metrics.OnStatement(func(of, statement string) {
		if r := w.now.Load(); r != nil && r.listener != service.Admin && r.path != heartbeatPath && w.app.gate.Stats().Active == 0 {
			w.t.Errorf("%s: statement %s of %s without a slot", r, statement, of)
		}
	})
}

func (w *chargedWalk) used() int64 {
	return w.app.memory.Stats().Used + w.app.operatorMemory.Stats().Used
}

// request returns a request with valid credentials. If cut, the body does not end.
func (w *chargedWalk) request(r *route, cut bool, rest io.Reader) *http.Request {
	body := io.Reader(strings.NewReader(r.body))
	if cut {
		body = io.MultiReader(body, rest)
	}
	req := httptest.NewRequestWithContext(w.t.Context(), r.method, r.path, body)
	req.Host, req.RemoteAddr, req.ContentLength = "127.0.0.1", "127.0.0.1:1", int64(len(r.body))
	if cut {
		req.ContentLength += 1 << 10
	}
	req.Header.Set("Content-Length", strconv.FormatInt(req.ContentLength, 10))
	if r.body != "" {
		req.Header.Set("Content-Type", r.media)
	}
	if r.condition != "" {
		req.Header.Set("If-None-Match", r.condition)
	}
	w.sign(r, req)
	return req
}

func (w *chargedWalk) sign(r *route, req *http.Request) {
	path := req.URL.EscapedPath()
	switch {
	case r.listener == buckets.Listener:
		if strings.Contains(r.path, "?") && req.Method != http.MethodGet {
			sum := md5.Sum([]byte(r.body))
			req.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
		}
		w.known.Sign(req, sigv4test.Unsigned, time.Now())
	case strings.HasPrefix(path, console.Prefix):
		req.Header.Set("Cookie", "holdfast-console="+w.operator)
		req.Header.Set("Origin", "http://127.0.0.1")
	case r.listener == service.Admin:
		req.Header.Set("Authorization", "Bearer "+w.app.cfg.Server.AdminToken.Reveal())
	case strings.HasPrefix(path, "/1.5/"):
		if err := hawk.SignHTTP(req, w.hawkID, w.hawkKey, time.Now(), ""); err != nil {
			w.t.Error(err)
		}
	case strings.HasPrefix(path, "/bff/"), strings.HasPrefix(path, "/guest/demo"):
		req.Header.Set("Cookie", "gms="+w.guest)
		if req.Method != http.MethodGet {
			req.Header.Set("Idempotency-Key", fmt.Sprintf(`"key-%d"`, w.keys.Add(1)))
		}
	default:
		for prefix, token := range w.tokens {
			if strings.HasPrefix(path, prefix) {
				req.Header.Set("Authorization", "Bearer "+token)
			}
		}
	}
}

// TestEveryRouteIsCharged checks on all routes that memory is charged while the client stops sending the body or
// reading the response.
func TestEveryRouteIsCharged(t *testing.T) { //nolint:paralleltest // it measures the heap
	testdb.CheckOnly(t, "it measures the heap for a minute")
	if testing.Short() {
		t.Skip("takes a minute: run without -short")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // thousands of collections use a third less CPU time
	w := openCharged(t)
	w.watchStatements()
	all := w.routes()
	w.wantEachRoute(all)
	for i := range all {
		r := &all[i]
		m := w.measure(r, false)
		t.Logf("%s: status %d, %d bytes; %d KB of the heap, %d KB charged for each client", r, m.status, m.sent, m.heap>>10/chargedClients, m.charged>>10/chargedClients)
		if m.heap > m.charged+chargedClients*uncharged {
			t.Errorf("%s: %d bytes of the heap, but %d are charged, for %d answers that nobody reads", r, m.heap, m.charged, chargedClients)
		}
		if isList := r.method == http.MethodGet && (r.listener == buckets.Listener || strings.HasPrefix(r.path, "/buckets/v1/accounts/")); isList && m.charged > chargedClients*mostList {
			t.Errorf("%s: %d bytes are charged for %d clients, of which each needs %d at most", r, m.charged, chargedClients, mostList)
		}
		if r.least > 0 && (m.status >= 300 || m.sent < r.least) {
			t.Errorf("%s: status %d with %d bytes, want at least %d", r, m.status, m.sent, r.least)
		}
		if r.method != http.MethodGet && r.method != http.MethodHead {
			w.holdBodies(r)
		}
	}
}

func (w *chargedWalk) holdBodies(r *route) {
	w.t.Helper()
	for _, length := range bodyLengths {
		cut := *r
		if r.least == 0 {
			cut.body = (r.body + strings.Repeat(" ", length))[:length]
		}
		m := w.measure(&cut, true)
		if m.status == http.StatusRequestEntityTooLarge {
			continue
		}
		if m.heap > m.charged+chargedClients*uncharged {
			w.t.Errorf("%s: %d bytes of the heap, but %d are charged, for %d bodies of %d bytes that do not end", r, m.heap, m.charged, chargedClients, len(cut.body))
		}
		// Short bodies are smaller than the uncharged memory.
		if all := int64(chargedClients * len(cut.body)); length < bodyLengths[0] && m.held && m.charged < all {
			w.t.Errorf("%s: %d bytes are charged for %d bodies of %d bytes that do not end", r, m.charged, chargedClients, len(cut.body))
		}
		return
	}
	w.t.Errorf("%s: a body of %d bytes is too long", r, bodyLengths[len(bodyLengths)-1])
}
