package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/web"
)

// walked is a server with every service and a probe on every listener.
type walked struct {
	*App
	log   logged
	probe *probe
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns and clears the text.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// probe is a service that charges nothing: it keeps bodies, and writes a large response at once.
type probe struct {
	Enabled bool `toml:"enabled" doc:"Serve the probe."`

	listeners func() []service.Listener
	kept      func(body []byte)
}

func (p *probe) IsEnabled() bool      { return p.Enabled }
func (p *probe) Check() conf.Problems { return nil }

const (
	probePath  = "/probe/"
	probeBytes = 100 << 10
)

func (p *probe) open(context.Context, *service.Deps) (*service.Opened, error) {
	serve := func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		p.kept(body)
		if len(body) == 0 {
			web.SendJSON(w, http.StatusOK, make([]byte, probeBytes))
		}
		return nil
	}
	opened := &service.Opened{}
	for _, l := range p.listeners() {
		opened.Mounts = append(opened.Mounts, service.Mount{Listener: l.Name, Mount: web.Mount{
			Owns: func(path string) bool { return strings.HasPrefix(path, probePath) },
			Service: web.Service{Serve: serve, Route: func(string) string { return "probe" }, Error: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusTeapot)
			}},
		}})
	}
	return opened, nil
}

func openWalked(t *testing.T) *walked {
	t.Helper()
	w := &walked{probe: &probe{Enabled: true}}
	services := append([]service.Service{{Name: "probe", Doc: "A probe.", Config: w.probe, Open: w.probe.open}}, Services()...)
	data := t.TempDir()
	cfg, _, err := Load(services, "", []string{
		"HOLDFAST_DATA=" + data, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0", "HOLDFAST_LOG__LEVEL=debug",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.probe.listeners = cfg.listeners
	if w.App, err = Open(t.Context(), Options{Config: cfg, Data: data, LogTo: &w.log, Mode: ModeServeMigrating}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *walked) handlers() map[string]http.Handler {
	all := map[string]http.Handler{}
	for _, l := range w.cfg.listeners() {
		all[l.Name] = w.listenerHandler(l.Name, new(atomic.Bool))
	}
	return all
}

func (w *walked) used() int64 { return w.memory.Stats().Used + w.operatorMemory.Stats().Used }

func (w *walked) request(t *testing.T, method, path, body string, operator bool) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", strings.NewReader(body))
	r.Method, r.URL.Path, r.RequestURI, r.RemoteAddr = method, path, path, "127.0.0.1:1"
	if operator {
		r.Header.Set("Authorization", "Bearer "+w.cfg.Server.AdminToken.Reveal())
	}
	return r
}

type watched struct {
	*httptest.ResponseRecorder
	write func(p []byte)
}

func (w *watched) Write(p []byte) (int, error) {
	w.write(p)
	return w.ResponseRecorder.Write(p)
}

// TestEveryListenerCharges checks that kept bodies and unread responses are charged even if the handler charges
// nothing.
func TestEveryListenerCharges(t *testing.T) {
	t.Parallel()
	w := openWalked(t)
	for name, h := range w.handlers() {
		var used int64
		w.probe.kept = func([]byte) { used = w.used() }
		h.ServeHTTP(httptest.NewRecorder(), w.request(t, http.MethodPost, probePath, strings.Repeat("x", probeBytes), true))
		if used != probeBytes {
			t.Errorf("%s: %d bytes are charged for a body, want %d", name, used, probeBytes)
		}
		w.probe.kept = func([]byte) {}
		h.ServeHTTP(&watched{httptest.NewRecorder(), func([]byte) { used = w.used() }}, w.request(t, http.MethodGet, probePath, "", true))
		if used != probeBytes {
			t.Errorf("%s: %d bytes are charged for an answer, want %d", name, used, probeBytes)
		}
		if used := w.used(); used != 0 {
			t.Errorf("%s: %d bytes are still charged", name, used)
		}
	}
	if m, ok := w.consoleHandler().(*web.Mux); !ok || m.Options.Memory == nil {
		t.Error("the console does not charge")
	}
	for _, path := range []string{"/metrics", "/debug/pprof/goroutine", "/debug/pprof/heap", "/version", "/read-only"} {
		h, most, charged := w.handlers()[service.Admin], 0, int64(0)
		h.ServeHTTP(&watched{httptest.NewRecorder(), func(p []byte) { most, charged = max(most, len(p)), max(charged, w.used()) }}, w.request(t, http.MethodGet, path, "", true))
		if most == 0 || charged < int64(most) && most > 4<<10 {
			t.Errorf("%s: writes %d bytes, %d are charged", path, most, charged)
		}
	}
}

// TestExemptions lists the calls that exempt a body or response from package web's charges, with reasons. The calling
// package tests the reason.
func TestExemptions(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"internal/app/console/assets.go":         "StaticBody: files of the program",
		"internal/app/console/form.go":           "StreamBody: uploads, whose fields are charged",
		"internal/buckets/httpapi/object.go":     "StreamBody: objects, for which WriteMemory is charged",
		"internal/buckets/httpapi/openapi.go":    "StaticBody: the document is in the program",
		"internal/buckets/s3api/body.go":         "StreamBody: objects, and documents, which readText charges (TestDocumentsAreCharged)",
		"internal/buckets/s3api/form.go":         "StreamBody: objects, for which WriteMemory is charged",
		"internal/operate/adminapi/adminapi.go":  "StreamBody: uploads, for which About.Memory is charged (TestStreams)",
		"internal/extstorage/httpapi/import.go":  "StreamBody: imports, of which a step is charged",
		"internal/extstorage/httpapi/openapi.go": "StaticBody: the document is in the program",
		"internal/guest/httpapi/demo.go":         "StaticBody: files of the program",
		"internal/guest/httpapi/openapi.go":      "StaticBody: the document is in the program",
	}
	root := filepath.Join("..", "..")
	var found []string
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("web.StreamBody(")) || bytes.Contains(text, []byte("web.StaticBody(")) {
			name, _ := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if want[name] == "" {
			t.Errorf("%s has an exemption that is not listed here: say why, and test what it keeps", name)
		}
	}
	for name := range want {
		if !slices.Contains(found, name) {
			t.Errorf("%s has no exemption any more", name)
		}
	}
}

// walkedPaths are fixed paths of each listener, and at least one path of each mount.
var walkedPaths = []string{
	"/", "//", "/x", "/robots.txt", "/favicon.ico", "/.well-known/x", "/__heartbeat__", "/__lbheartbeat__", "/__version__", "/__error__",
	"/livez", "/readyz", "/metrics", "/version", "/read-only", "/read-only/x/on", "/debug/pprof/", "/debug/pprof/heap",
	"/console", "/console/", "/console/sign-in", "/console/sign-out", "/console/static/x", "/console/x",
	"/1.0/sync/1.5", "/1.5/1/storage/bookmarks", "/1.5/1/info/collections", "/storage/1/x",
	"/buckets/openapi.json", "/buckets/v1/accounts/main/buckets", "/buckets/v1/gc/batches", "/bucket/key", "/bucket?uploads", "/bucket?delete",
	"/bff/consumer/v1/session", "/bff/consumer/v1/openapi.json", "/bff/consumer/v1/search", "/bff/consumer/v1/telemetry/page-view", "/guest/demo", "/guest/demo/booking", "/guest/demo/arrivals", "/guest/demo/live", "/guest/demo/hot-state", "/guest/demo/suspension", "/guest/demo/pictures/vienna-0.svg",
	"/internal/handoff/x/consume", "/internal/handoff/x/verify", "/internal/handoff/x/remove-items", "/internal/events", "/internal/ext-storage/install/x", "/ext-storage/openapi.json", "/ext/storage/v1/x",
	"/ext/installs", "/ext/installs/x/y", "/ext/installs/x/y/set", "/ext/tenants/x/delete", "/ext/usage/audit", "/ext/runs", "/ext/tokens/revoke", "/ext/tokens/x/y/create", "/ext/service-tokens/x", "/ext/dead-letters",
	"/guest/keys", "/guest/keys/rotate", "/guest/tenants", "/guest/outbox", "/guest/dead-letters",
	"/guest/quarantine", "/guest/refusals", "/guest/jobs/events/run", "/guest/sessions/x/erase", "/tokenserver/nodes", "/tokenserver/nodes/x/drain", "/tokenserver/accounts", "/tokenserver/access/x/deny", "/tokenserver/refused",
	"/tokenserver/users/1/quota", "/sync/tokens/1/create",
	"/buckets/accounts", "/buckets/accounts/x", "/buckets/keys/x", "/buckets/buckets/x", "/buckets/quotas/x", "/buckets/nodes", "/buckets/damages", "/buckets/audits/run", "/buckets/dead-letters", "/buckets/runs",
}

func (w *walked) wantNoError(t *testing.T, listener string, h http.Handler, req *http.Request) {
	t.Helper()
	what := fmt.Sprintf("%s: %s %s with %d bytes", listener, req.Method, req.URL, req.ContentLength)
	out := httptest.NewRecorder()
	func() {
		defer func() { // a handler closes the connection if the response has begun
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				t.Errorf("%s: %v", what, p)
			}
		}()
		h.ServeHTTP(out, req)
	}()
	if log := w.log.take(); out.Code >= 500 || strings.Contains(log, "level=ERROR") || strings.Contains(log, "panic") {
		t.Errorf("%s: status %d\n%s", what, out.Code, log)
	}
}

// TestAnonymousClientsLogNoErrors checks that requests without credentials cause neither server errors nor errors in
// the log, with any method and path.
func TestAnonymousClientsLogNoErrors(t *testing.T) {
	t.Parallel()
	w := openWalked(t)
	w.probe.kept = func([]byte) {}
	w.log.take()
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "BREW", "get", "*"}
	for name, h := range w.handlers() {
		paths := slices.Clone(walkedPaths)
		for _, s := range w.opened {
			for _, m := range s.Mounts {
				if m.Listener == name {
					paths = append(paths, m.Paths...)
					if !slices.ContainsFunc(paths, m.Owns) && s.Name != "probe" {
						t.Errorf("%s: add a path of %s to walkedPaths", name, s.Name)
					}
				}
			}
		}
		for _, path := range paths {
			for _, method := range methods {
				for _, body := range []string{"", "{", strings.Repeat("x", probeBytes)} {
					w.wantNoError(t, name, h, w.request(t, method, path, body, false))
				}
			}
		}
		if used := w.used(); used != 0 {
			t.Errorf("%s: %d bytes are still charged", name, used)
		}
	}
}
