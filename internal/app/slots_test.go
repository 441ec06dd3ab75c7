package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/buckets"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/web"
)

func (a *App) occupy(t *testing.T) (release func()) {
	t.Helper()
	holds, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := web.Service{
		Name: "test", Route: func(string) string { return "test" },
		Serve: func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			err := web.AcquireSlot(r)
			close(holds)
			<-end
			return err
		},
		Error: func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) },
	}.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: a.gate})
	go func() {
		defer close(ended)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}()
	<-holds
	return func() { close(end); <-ended }
}

type walk struct {
	t         *testing.T
	app       *App
	listeners map[string]http.Handler
	served    map[string]int
	known     sigv4test.Signer
}

// TestNoDatabaseWithoutSlot checks that while no slot is free, no request without valid credentials, and no S3
// request, reaches a database.
func TestNoDatabaseWithoutSlot(t *testing.T) {
	t.Parallel()
	w := openWalk(t, "max_requests = 1\nqueue_wait = \"1ms\"", "")
	targets := w.targets()
	w.stopClock()
	if got := w.send(service.Main, httptest.NewRequest(http.MethodGet, heartbeatPath, http.NoBody)); got != http.StatusOK {
		t.Fatalf("heartbeat: %d", got)
	}
	release := w.app.occupy(t)
	defer func() { release() }()
	for _, target := range targets {
		var all []attempt
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			for who, sign := range w.strangers() {
				all = append(all, attempt{target, method, who, sign})
			}
		}
		w.refuse(all)
	}
	for name := range w.served {
		if w.served[name] == 0 {
			t.Errorf("no request is for %s: add a path to targets", name)
		}
	}
	for _, target := range targets {
		if target.listener != buckets.Listener {
			continue
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
			release()
			warm := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			w.known.Sign(warm, sigv4test.Unsigned, time.Now())
			if got := w.send(buckets.Listener, warm); got != http.StatusOK {
				t.Fatalf("list buckets: %d", got)
			}
			release = w.app.occupy(t)
			w.refuse([]attempt{
				{target, method, "a known key", func(r *http.Request) { w.known.Sign(r, sigv4test.Unsigned, time.Now()) }},
				{target, method, "a known key, copying", func(r *http.Request) {
					r.Header.Set("X-Amz-Copy-Source", "/photos/copied.txt")
					w.known.Sign(r, sigv4test.Unsigned, time.Now())
				}},
			})
		}
	}
}

func openWalk(t *testing.T, settings, sections string) *walk {
	t.Helper()
	w := &walk{t: t, listeners: map[string]http.Handler{}, served: map[string]int{}, known: sigv4test.Signer{AccessKeyID: "HFKNOWN", Secret: strings.Repeat("s", 40), Region: "us-east-1"}}
	file := filepath.Join(t.TempDir(), "holdfast.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `
[server]
%[4]s
internal_listen = "127.0.0.1:0"
[extstorage]
enabled = true
token_secret = "%[1]s"
rate_limits = false
[guest]
enabled = true
rate_limits = false
handoff_secret = "%[6]s"
handoff_url = "https://book.example/#{token}"
[buckets.accounts.main.keys.known]
access_key = "%[2]s"
secret_key = "%[3]s"
%[5]s
`, strings.Repeat("t", 32), w.known.AccessKeyID, w.known.Secret, settings, sections, strings.Repeat("r", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(Services(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.app, err = Open(t.Context(), Options{Config: cfg, Data: t.TempDir(), Version: Version{Version: "test"}, LogTo: io.Discard, Mode: ModeServe}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.app.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, err := range w.app.settle(t.Context()) {
		t.Fatal(name, err)
	}
	w.listeners[service.Main] = w.app.mainHandler()
	w.listeners[service.Admin] = w.app.adminHandler(new(atomic.Bool))
	for _, s := range w.app.opened {
		for _, m := range s.Mounts {
			w.served[s.Name+" on "+m.Listener] = 0
			if w.listeners[m.Listener] == nil {
				w.listeners[m.Listener] = w.app.otherHandler(m.Listener)
			}
		}
	}
	for _, path := range []string{"/photos", "/photos/copied.txt"} {
		r := httptest.NewRequest(http.MethodPut, path, http.NoBody)
		r.Header.Set("Content-Length", "0")
		r.Header.Set("X-Amz-Acl", "public-read")
		if path != "/photos" {
			r.Header.Del("X-Amz-Acl")
		}
		w.known.Sign(r, sigv4test.Unsigned, time.Now())
		if got := w.send(buckets.Listener, r); got != http.StatusOK {
			t.Fatalf("PUT %s: %d", path, got)
		}
	}
	return w
}

func (w *walk) send(listener string, r *http.Request) int {
	rec := httptest.NewRecorder()
	w.listeners[listener].ServeHTTP(rec, r)
	return rec.Code
}

const heartbeatPath = "/__heartbeat__"

func (w *walk) stopClock() (advance func(time.Duration)) {
	now := time.Now()
	w.app.now = func() time.Time { return now }
	return func(d time.Duration) { now = now.Add(d) }
}

// TestHeartbeatsShareOneCheck checks that heartbeats, which need neither credentials nor a slot, query the databases
// at most once a second.
func TestHeartbeatsShareOneCheck(t *testing.T) {
	t.Parallel()
	w := openWalk(t, "", "")
	advance := w.stopClock()
	burst := func(n int) int64 {
		t.Helper()
		before := w.app.metrics.Statements()
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				if got := w.send(service.Main, httptest.NewRequest(http.MethodGet, heartbeatPath, http.NoBody)); got != http.StatusOK {
					t.Errorf("heartbeat: %d", got)
				}
			})
		}
		all.Wait()
		return w.app.metrics.Statements() - before
	}
	one := burst(1)
	if one == 0 {
		t.Fatal("a heartbeat does not ask the databases")
	}
	if n := burst(50); n != 0 {
		t.Errorf("50 heartbeats in the same second run %d statements", n)
	}
	advance(heartbeatAge)
	if n := burst(50); n == 0 || n > one {
		t.Errorf("50 heartbeats a second later run %d statements, one runs %d", n, one)
	}
}

type target struct{ listener, path string }

// targets returns declared paths, paths in API descriptions, and unlisted paths.
func (w *walk) targets() (all []target) {
	add := func(listener string, paths ...string) {
		for _, p := range paths {
			all = append(all, target{listener, p})
		}
	}
	for _, s := range w.app.opened {
		for _, m := range s.Mounts {
			for _, p := range m.Paths {
				add(m.Listener, p, strings.TrimSuffix(p, "/")+"/x")
			}
		}
	}
	for _, name := range describedAPIs {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			w.t.Fatal(err)
		}
		var document struct {
			Paths map[string]any `json:"paths"`
		}
		if err := json.Unmarshal(text, &document); err != nil {
			w.t.Fatal(err)
		}
		for p := range document.Paths {
			p = strings.NewReplacer("{tenantId}", "11111111-2222-4333-8444-555555555555", "{", "", "}", "").Replace(p)
			add(service.Main, p)
			add(service.Internal, p)
			add(service.Admin, p)
		}
	}
	add(service.Main, "/", "/1.5/1/info/collections", "/1.5/1/info/configuration", "/1.5/1/storage/tabs", "/1.5/1/storage/tabs/x", "/1.5/1",
		"/1.0/sync/1.5", "/1.0/webhooks/fxa/events", "/token/1.0/sync/1.5", "/__version__", "/__lbheartbeat__")
	add(buckets.Listener, "/", "/photos", "/photos/copied.txt", "/photos/new", "/unknown", "/unknown/key", "/main:photos/copied.txt", "/main:unknown/key", "/nobody:photos/key",
		"/photos/copied.txt?uploadId=x&partNumber=1", "/photos/copied.txt?uploadId=x", "/unknown/key?uploadId=x&partNumber=1", "/unknown?delete")
	for _, r := range s3api.Routes() {
		path := "/photos"
		if r.OfObject {
			path += "/copied.txt"
		}
		add(buckets.Listener, path+"?"+r.Parameter)
	}
	add(service.Main, heartbeatPath)
	// Not /readyz and /metrics, which monitoring uses and which query the databases.
	add(service.Admin, "/", "/livez", "/version", "/read-only", "/debug/pprof/")
	add(service.Admin, w.app.consolePaths()...)
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.listener+a.path, b.listener+b.path) })
	return slices.Compact(all)
}

// strangers are unknown or unverifiable credentials by name.
func (w *walk) strangers() map[string]func(*http.Request) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	unknown := sigv4test.Signer{AccessKeyID: "HFUNKNOWN", Secret: "x", Region: "us-east-1"}
	wrong := sigv4test.Signer{AccessKeyID: w.known.AccessKeyID, Secret: "wrong", Region: "us-east-1"}
	return map[string]func(*http.Request){
		"nobody": func(*http.Request) {},
		"a page of another site": func(r *http.Request) {
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Access-Control-Request-Method", "PUT")
		},
		"a wrong token":    header("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA"),
		"a wrong Hawk MAC": header("Authorization", `Hawk id="x", ts="1", nonce="n", mac="AAAA"`),
		"a wrong cookie":   header("Cookie", "gms=x.y; __Host-gms=x.y; console=x; holdfast_console=x"),
		"an unknown key":   func(r *http.Request) { unknown.Sign(r, sigv4test.Unsigned, time.Now()) },
		"a wrong secret":   func(r *http.Request) { wrong.Sign(r, sigv4test.Unsigned, time.Now()) },
		"an unknown key in the query": func(r *http.Request) {
			unknown.Presign(r, time.Minute, time.Now())
		},
		"a form": func(r *http.Request) {
			if r.Method != http.MethodPost {
				return
			}
			fields := map[string]string{"key": "k"}
			unknown.SignForm(fields, unknown.FormConditions(time.Now()), time.Now())
			var body strings.Builder
			for name, value := range fields {
				fmt.Fprintf(&body, "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
			}
			body.WriteString("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n")
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body.String())), int64(body.Len())
		},
	}
}

type attempt struct {
	target

	method, who string
	sign        func(*http.Request)
}

// refuse sends the requests, and sends them again individually if a statement was run.
func (w *walk) refuse(all []attempt) {
	w.t.Helper()
	before := w.app.metrics.Statements()
	for i := range all {
		w.try(&all[i])
	}
	if w.app.metrics.Statements() == before {
		return
	}
	for i := range all {
		before := w.app.metrics.Statements()
		status := w.try(&all[i])
		if n := w.app.metrics.Statements() - before; n > 0 {
			a := &all[i]
			w.t.Errorf("%s: %s %s by %s: %d statements without a slot (status %d)", a.listener, a.method, a.path, a.who, n, status)
		}
	}
	if !w.t.Failed() {
		w.t.Errorf("%s: %s: statements without a slot, but not when the requests are repeated", all[0].listener, all[0].path)
	}
}

func (w *walk) try(a *attempt) (status int) {
	var body io.Reader = http.NoBody
	if a.method == http.MethodPut || a.method == http.MethodPost || a.method == http.MethodPatch {
		body = strings.NewReader("{}")
	}
	r := httptest.NewRequest(a.method, a.path, body)
	r.Host = "127.0.0.1"
	if body != http.NoBody {
		r.Header.Set("Content-Type", "application/json")
	}
	a.sign(r)
	for _, s := range w.app.opened {
		for _, m := range s.Mounts {
			if m.Listener == a.listener && m.Owns(r.URL.EscapedPath()) {
				w.served[s.Name+" on "+m.Listener]++
			}
		}
	}
	return w.send(a.listener, r)
}
