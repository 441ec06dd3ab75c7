package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
)

func openApp(t *testing.T, environ ...string) *App {
	t.Helper()
	return openServices(t, Services(), environ...)
}

func openServices(t *testing.T, services []service.Service, environ ...string) *App {
	t.Helper()
	cfg, _, err := Load(services, "", environ)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Options{Config: cfg, Data: t.TempDir(), Version: Version{Version: "test"}, LogTo: io.Discard, Mode: ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	a := openApp(t, "HOLDFAST_SERVER__ADMIN_LISTEN=admin.lan:8001")
	var draining atomic.Bool
	h := a.adminHandler(&draining)
	token := "Bearer " + a.Config().Server.AdminToken.Reveal()
	for _, tc := range []struct {
		name, path, host, auth string
		status                 int
		says                   string
	}{
		{"alive", "/livez", "127.0.0.1:8001", "", 200, "ok"},
		{"ready", "/readyz", "127.0.0.1:8001", "", 200, "ok"},
		{"metrics", "/metrics", "[::1]:8001", "", 200, `holdfast_build_info{commit="",version="test"} 1`},
		{"its own name", "/livez", "admin.lan:8001", "", 200, "ok"},
		{"a name that somebody made point here", "/livez", "evil.example", "", 421, ""},
		{"no token", "/version", "localhost:8001", "", 401, "token"},
		{"wrong token", "/version", "localhost:8001", token + "x", 401, "token"},
		{"token", "/version", "localhost:8001", token, 200, `"version":"test"`},
		{"profiles need it too", "/debug/pprof/", "localhost", "", 401, ""},
		{"profiles", "/debug/pprof/cmdline", "localhost", token, 200, ""},
		{"unknown paths tell nothing", "/nothing", "localhost", "", 401, "UNAUTHENTICATED"},
		{"an unknown path", "/nothing", "localhost", token, 404, "no such path: expected /livez, /readyz, /metrics, /version, /status, /read-only, /"},
		{"paths of services", "/nothing", "localhost", token, 404, "/ext/installs, /ext/tenants, /ext/records, /ext/schemas, /ext/usage, /ext/tokens, /ext/service-tokens, /ext/dead-letters, /ext/runs, "},
		{"paths of operations", "/nothing", "localhost", token, 404, "/buckets/accounts, /buckets/keys, "},
		{"an unknown path below one of a service", "/ext/installs/x/y/z", "localhost", token, 404, "not-found"},
		{"an unknown profile", "/debug/pprof/nothing", "localhost", token, 404, `"message":"Unknown profile"`},
		{"a method", "POST /livez", "localhost", token, 405, "this path supports GET, HEAD"},
		{"a method of a closed path", "DELETE /version", "localhost", token, 405, "this path supports GET, HEAD"},
		{"a method of a profile", "POST /debug/pprof/heap", "localhost", token, 405, "this path supports GET, HEAD"},
		{"a method without a token", "POST /metrics", "localhost", "", 401, "UNAUTHENTICATED"},
		{"a method of a service", "POST /ext/installs", "localhost", token, 405, "method-not-allowed"},
	} {
		method, path, given := strings.Cut(tc.path, " ")
		if !given {
			method, path = http.MethodGet, tc.path
		}
		r := httptest.NewRequest(method, path, nil)
		r.Host = tc.host
		if tc.auth != "" {
			r.Header.Set("Authorization", tc.auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s: %d %q", tc.name, w.Code, w.Body)
		}
		if w.Code >= 400 {
			wantJSONError(t, tc.name, w)
		}
	}
}

func wantJSONError(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	var body struct {
		Error        struct{ Code, Message string }
		Code, Detail string
	}
	err, kind := json.Unmarshal(w.Body.Bytes(), &body), "application/json"
	if body.Code != "" {
		body.Error.Code, body.Error.Message, kind = body.Code, body.Detail, "application/problem+json"
	}
	if length := w.Header().Get("Content-Length"); length != strconv.Itoa(w.Body.Len()) {
		t.Errorf("%s: Content-Length %s of %d bytes", name, length, w.Body.Len())
	}
	if err != nil || !strings.HasSuffix(w.Body.String(), "}\n") || body.Error.Code == "" || body.Error.Message == "" || w.Header().Get("Content-Type") != kind {
		t.Errorf("%s: %d %q as %q", name, w.Code, w.Body, w.Header().Get("Content-Type"))
	}
}

func TestUnknownPathOfInternalListener(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]string{
		"": "no such path: expected /internal/ext-storage/install/INSTALL, /internal/handoff/ID/consume, /internal/handoff/ID/verify, /internal/handoff/ID/remove-items, /internal/events",
		"HOLDFAST_EXTSTORAGE__ENABLED=false HOLDFAST_GUEST__ENABLED=false": "no such path: this listener serves no enabled service",
	} {
		w := httptest.NewRecorder()
		openApp(t, strings.Fields(environ)...).otherHandler(service.Internal).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/nothing", nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"message":"`+want+`"`) {
			t.Errorf("%q: %d %s, want %s", environ, w.Code, w.Body, want)
		}
		wantJSONError(t, environ, w)
	}
}

// TestS3OnMainListener checks that an S3 client on the main listener gets an S3 error.
func TestS3OnMainListener(t *testing.T) {
	t.Parallel()
	h := openApp(t).mainHandler()
	for name, tc := range map[string]struct {
		target, authorization string
		status                int
	}{
		"signed":    {"/", "AWS4-HMAC-SHA256 Credential=HF/20261123/us-east-1/s3/aws4_request", http.StatusBadRequest},
		"version 2": {"/photos/a", "AWS HF:c2ln", http.StatusBadRequest},
		"presigned": {"/photos/a?X-Amz-Signature=00", "", http.StatusBadRequest},
		"status":    {"/", "", http.StatusOK},
		"no path":   {"/photos/a", "", http.StatusNotFound},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8000"+tc.target, nil)
		if tc.authorization != "" {
			r.Header.Set("Authorization", tc.authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		isRefused := strings.Contains(w.Body.String(), "<Code>InvalidRequest</Code>") && strings.Contains(w.Body.String(), "buckets.listen")
		if w.Code != tc.status || isRefused != (tc.status == http.StatusBadRequest) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	var draining atomic.Bool
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		a.adminHandler(&draining).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz", nil))
		return w.Code, w.Body.String()
	}
	if status, _ := ask(); status != 200 {
		t.Errorf("ready: %d", status)
	}
	away := errcode.New(errcode.Unavailable, "the database is away")
	a.opened = append(a.opened, &opened{Running: &service.Running{Name: "guest", Opened: &service.Opened{Ready: func(context.Context) error { return away }}}})
	if status, body := ask(); status != 503 || !strings.Contains(body, "guest: the database is away") {
		t.Errorf("a service away: %d %q", status, body)
	}
	draining.Store(true)
	if status, body := ask(); status != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("draining: %d %q", status, body)
	}
}
