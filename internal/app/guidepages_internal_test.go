package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/web"
)

// TestGuidesWithoutConsole opens the guides without a token and without the console; the status page links to them for a
// browser on this machine only.
func TestGuidesWithoutConsole(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	a.console, a.addresses = nil, map[string]string{service.Admin: "127.0.0.1:8001"}
	status := func(forwarded string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8000/", http.NoBody)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Accept", "text/html")
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		if err := a.statusPage(w, r, web.Address{}); err != nil {
			t.Fatal(err)
		}
		return w.Body.String()
	}
	page := status("")
	for _, link := range []string{`href="http://127.0.0.1:8001/guide/"`, `href="http://127.0.0.1:8001/guide/extension-storage"`} {
		if !strings.Contains(page, link) {
			t.Errorf("no %s in\n%s", link, page)
		}
	}
	if strings.Contains(page, "/console/") {
		t.Error("the status page links to the console, which is off")
	}
	if page := status("192.0.2.1"); strings.Contains(page, "8001") || !strings.Contains(page, "the file <code>docs/extension-storage.md</code>") {
		t.Errorf("for another machine:\n%s", page)
	}
	var draining atomic.Bool
	admin := a.adminHandler(&draining)
	for _, c := range []struct {
		method, url, says string
		status            int
	}{
		{http.MethodGet, "http://127.0.0.1/guide/", "<h1 id=\"guides\">Guides</h1>", http.StatusOK},
		{http.MethodGet, "http://127.0.0.1/guide/backup", "<title>", http.StatusOK},
		{http.MethodGet, "http://127.0.0.1/guide/nothing", "There is no such guide", http.StatusNotFound},
		{http.MethodGet, "http://127.0.0.1/guide/%2e%2e/metrics", "There is no such guide", http.StatusNotFound},
		{http.MethodGet, "http://evil.example.org/guide/", "unknown Host header", http.StatusMisdirectedRequest},
		{http.MethodPost, "http://127.0.0.1/guide/", "admin token required", http.StatusUnauthorized},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, c.url, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Accept", "text/html")
		if admin.ServeHTTP(w, r); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d\n%.300s", c.method, c.url, w.Code, w.Body)
		}
	}
}
