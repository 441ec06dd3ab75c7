package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/web/rate"
)

type operator struct {
	t      *testing.T
	h      http.Handler
	cookie string
	edit   func(*http.Request)
	isFile bool
}

func (o *operator) do(method, path string, form url.Values) (status int, body string, header http.Header) {
	o.t.Helper()
	var in io.Reader
	kind := "application/x-www-form-urlencoded"
	if o.isFile && form != nil {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for name := range form {
			if err := w.WriteField(name, form.Get(name)); err != nil {
				o.t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			o.t.Fatal(err)
		}
		in, kind = &body, w.FormDataContentType()
	} else if form != nil {
		in = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, path, in)
	r.Host, r.RemoteAddr = "127.0.0.1:8001", "127.0.0.1:50000"
	if form != nil {
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", "http://127.0.0.1:8001")
	}
	if o.cookie != "" {
		r.Header.Set("Cookie", o.cookie)
	}
	if o.edit != nil {
		o.edit(r)
	}
	w := httptest.NewRecorder()
	o.h.ServeHTTP(w, r)
	if set, _, found := strings.Cut(w.Header().Get("Set-Cookie"), ";"); found {
		o.cookie = set
	}
	return w.Code, w.Body.String(), w.Header()
}

func (o *operator) want(what string, status int, says, method, path string, form url.Values) (body string) {
	o.t.Helper()
	got, body, h := o.do(method, path, form)
	if got != status || !strings.Contains(body+h.Get("Location"), says) {
		o.t.Errorf("%s: %d, want %d and %q in\n%s%s", what, got, status, says, body, h.Get("Location"))
	}
	if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';") || strings.Contains(body, "<style") || strings.Contains(body, "style=") {
		o.t.Errorf("%s: policy %q", what, policy)
	}
	return body
}

func (o *operator) form(page string, values ...string) url.Values {
	o.t.Helper()
	_, body, _ := o.do(http.MethodGet, page, nil)
	token := regexp.MustCompile(`name="csrf" value="([0-9a-f]{64})"`).FindStringSubmatch(body)
	if token == nil {
		o.t.Fatalf("no token in\n%s", body)
	}
	form := url.Values{"csrf": {token[1]}}
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return form
}

const (
	viewerToken = "viewer-token-of-a-test-0123456789"
	someAccount = "0123456789abcdef0123456789abcdef"
)

func openConsole(t *testing.T, environ ...string) (a *App, browse func(token string) *operator) {
	t.Helper()
	a = openApp(t, append(environ, "HOLDFAST_SERVER__VIEWER_TOKEN="+viewerToken)...)
	var draining atomic.Bool
	h := a.adminHandler(&draining)
	return a, func(token string) *operator {
		o := &operator{t: t, h: h}
		if token != "" {
			o.want("sign-in", http.StatusSeeOther, "/console/", http.MethodPost, "/console/sign-in", url.Values{"token": {token}})
		}
		return o
	}
}

func TestConsoleAccess(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	token := a.Config().Server.AdminToken.Reveal()
	o := browse("")
	o.want("no session", http.StatusSeeOther, "/console/sign-in", http.MethodGet, "/console/", nil)
	o.want("no session, a change", http.StatusForbidden, "sign in", http.MethodPost, "/console/tokenserver/access?do=allow", url.Values{"account": {someAccount}})
	o.want("no form", http.StatusOK, "Admin token", http.MethodGet, "/console/sign-in", nil)
	o.want("a link in next", http.StatusOK, `value="&#34;&gt;&lt;b&gt;"`, http.MethodGet, "/console/sign-in?next="+url.QueryEscape(`"><b>`), nil)

	o = browse(token)
	if status, _, h := o.do(http.MethodPost, "/console/sign-in", url.Values{"token": {token}, "next": {"//evil.example/"}}); status != http.StatusSeeOther || h.Get("Location") != "/console/" ||
		!strings.HasSuffix(h.Get("Set-Cookie"), "; Path=/; HttpOnly; SameSite=Strict") {
		t.Errorf("sign-in: %d %v", status, h)
	}
	for _, page := range []string{"", "changes", "sessions", "tokenserver/refused", "tokenserver/access", "tokenserver/nodes"} {
		o.want(page, http.StatusOK, `aria-current="page"`, http.MethodGet, "/console/"+page, nil)
	}
	o.want("an unknown page", http.StatusNotFound, "No such page", http.MethodGet, "/console/nothing", nil)
	o.want("the style", http.StatusOK, "color-scheme", http.MethodGet, "/console/static/console.css", nil)

	change := o.form("/console/tokenserver/access", "account", someAccount, "note", `<script>alert(1)</script>`)
	for name, edit := range map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"no origin":      func(r *http.Request) { r.Header.Del("Origin") },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another host":   func(r *http.Request) { r.Host = "evil.example" },
		"a network":      func(r *http.Request) { r.RemoteAddr = "192.0.2.1:50000" },
		"a proxy":        func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") },
		"no token":       func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("account=" + someAccount)) },
	} {
		o.edit = edit
		if status, body, _ := o.do(http.MethodPost, "/console/tokenserver/access?do=allow", change); status != http.StatusForbidden && status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d\n%s", name, status, body)
		}
	}
	o.edit = nil
	o.want("refused changes", http.StatusOK, "The lists are empty", http.MethodGet, "/console/tokenserver/access", nil)
	o.want("a change", http.StatusSeeOther, "/console/tokenserver/access", http.MethodPost, "/console/tokenserver/access?do=allow", change)
	page := o.want("a note with HTML", http.StatusOK, "&lt;script&gt;alert(1)", http.MethodGet, "/console/tokenserver/access", nil)
	if !strings.Contains(page, "may sign in.</span></p>") {
		t.Errorf("no notice in\n%s", page)
	}
	o.want("the log of changes", http.StatusOK, "account="+someAccount, http.MethodGet, "/console/changes", nil)
	o.want("an invalid account", http.StatusBadRequest, `value="&lt;b&gt;"`, http.MethodPost, "/console/tokenserver/access?do=deny", o.form("/console/", "account", "<b>"))

	v := browse(viewerToken)
	if page := v.want("a viewer", http.StatusOK, someAccount, http.MethodGet, "/console/tokenserver/access", nil); strings.Contains(page, "?do=") {
		t.Errorf("a viewer sees forms:\n%s", page)
	}
	v.want("a change of a viewer", http.StatusForbidden, "may not change", http.MethodPost, "/console/tokenserver/access?do=remove", v.form("/console/", "account", someAccount))

	o.want("removed", http.StatusSeeOther, "", http.MethodPost, "/console/tokenserver/access?do=remove", o.form("/console/", "account", someAccount))
	o.want("end all", http.StatusSeeOther, "", http.MethodPost, "/console/sessions?do=end-all", o.form("/console/"))
	v.want("after the end", http.StatusSeeOther, "/console/sign-in?next=changes", http.MethodGet, "/console/changes", nil)
	o = browse(token)
	o.want("sign-out", http.StatusSeeOther, "/console/sign-in", http.MethodPost, "/console/sign-out", o.form("/console/"))
	o.want("after the sign-out", http.StatusSeeOther, "/console/sign-in", http.MethodGet, "/console/", nil)
}

// TestAdminInBrowser checks that the admin listener leads browsers to the console, and sends JSON to programs.
func TestAdminInBrowser(t *testing.T) {
	t.Parallel()
	_, browse := openConsole(t)
	o := browse("")
	for _, tc := range []struct {
		accept, path, location, says string
		status                       int
	}{
		{"text/html,*/*;q=0.8", "/", "/console/", "To the console", http.StatusSeeOther},
		{"text/html,*/*;q=0.8", "/nothing", "", `<a href="/console/">To the console</a>`, http.StatusUnauthorized},
		{"text/html,*/*;q=0.8", "/version", "", `<a href="/console/">To the console</a>`, http.StatusUnauthorized},
		{"text/html,*/*;q=0.8", "/livez", "", "ok", http.StatusOK},
		{"*/*", "/", "", `"UNAUTHENTICATED"`, http.StatusUnauthorized},
		{"", "/nothing", "", `"UNAUTHENTICATED"`, http.StatusUnauthorized},
	} {
		o.edit = func(r *http.Request) { r.Header.Set("Accept", tc.accept) }
		status, body, h := o.do(http.MethodGet, tc.path, nil)
		if status != tc.status || h.Get("Location") != tc.location || !strings.Contains(body, tc.says) {
			t.Errorf("%s by %q: %d to %q\n%s", tc.path, tc.accept, status, h.Get("Location"), body)
		}
	}
}

// TestMainInBrowser also checks that non-browsers get the same response for unknown paths as from Mozilla's server.
func TestMainInBrowser(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	a.addresses = map[string]string{service.Admin: "127.0.0.1:8001"}
	get := func(path, accept, from, host string, headers ...string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = host, from
		r.Header.Set("Accept", accept)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		a.mainHandler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const html, link = "text/html,*/*;q=0.8", `<a href="http://127.0.0.1:8001/console/">`
	for _, tc := range []struct {
		from, host string
		headers    []string
		console    bool
	}{
		{"127.0.0.1:50000", "127.0.0.1:8000", nil, true},
		{"[::1]:50000", "localhost:8000", nil, true},
		{"192.0.2.7:50000", "127.0.0.1:8000", nil, false},
		{"127.0.0.1:50000", "sync.example.org", nil, false},
		{"127.0.0.1:50000", "127.0.0.1:8000", []string{"X-Forwarded-For", "192.0.2.7"}, false},
		{"127.0.0.1:50000", "127.0.0.1:8000", []string{"Forwarded", "for=192.0.2.7"}, false},
	} {
		status, body := get("/", html, tc.from, tc.host, tc.headers...)
		if status != http.StatusOK || strings.Contains(body, link) != tc.console || strings.Contains(body, "8001") != tc.console {
			t.Errorf("from %s, %s: %d\n%s", tc.from, tc.host, status, body)
		}
		if address := "http://" + tc.host + "/1.0/sync/1.5"; !strings.Contains(body, `<a href="`+address+`">`+address+`</a>`) {
			t.Errorf("no link to %s:\n%s", address, body)
		}
	}
	if status, body := get("/nothing", html, "127.0.0.1:50000", "127.0.0.1:8000"); status != http.StatusNotFound || !strings.Contains(body, `<a href="/">`) {
		t.Errorf("an unknown path: %d\n%s", status, body)
	}
	if status, body := get("/nothing", "application/json", "127.0.0.1:50000", "127.0.0.1:8000"); status != http.StatusNotFound || body != "0" {
		t.Errorf("an unknown path, for a program: %d %q", status, body)
	}
}

func TestConsoleSignInIsLimited(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t)
	at := time.Now() // on a slow machine the limit would recover during the test
	var err error
	if a.guesses, err = rate.NewGuesses(func() time.Time { return at }); err != nil {
		t.Fatal(err)
	}
	if a.console, err = a.newConsole(); err != nil {
		t.Fatal(err)
	}
	var draining atomic.Bool
	o := &operator{t: t, h: a.adminHandler(&draining)}
	for range 10 {
		o.want("a wrong token", http.StatusForbidden, "The token is wrong", http.MethodPost, "/console/sign-in", url.Values{"token": {"x"}})
	}
	o.want("too many", http.StatusTooManyRequests, "Too many wrong tokens", http.MethodPost, "/console/sign-in", url.Values{"token": {a.Config().Server.AdminToken.Reveal()}})
}

// TestConsoleLockIsPerAddress checks that wrong tokens from an address do not lock out other addresses that know the
// token, even in the same IPv6 network, but do limit guesses from the network.
func TestConsoleLockIsPerAddress(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t, "HOLDFAST_SERVER__TRUSTED_PROXIES=192.0.2.1")
	at := time.Now()
	var err error
	if a.guesses, err = rate.NewGuesses(func() time.Time { return at }); err != nil {
		t.Fatal(err)
	}
	if a.console, err = a.newConsole(); err != nil {
		t.Fatal(err)
	}
	var draining atomic.Bool
	var from string
	o := &operator{t: t, h: a.adminHandler(&draining)}
	o.edit = func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:50000"
		r.Header.Set("X-Forwarded-For", from)
		r.Header.Set("X-Forwarded-Host", "admin.example.org")
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("Origin", "https://admin.example.org")
	}
	wrong, right := url.Values{"token": {"x"}}, url.Values{"token": {a.Config().Server.AdminToken.Reveal()}}
	from = "2001:db8::bad"
	for range 10 {
		o.want("a wrong token", http.StatusForbidden, "The token is wrong", http.MethodPost, "/console/sign-in", wrong)
	}
	for _, tc := range []struct {
		from   string
		token  url.Values
		status int
	}{
		{"2001:db8::bad", right, http.StatusTooManyRequests},
		{"2001:db8::bad", wrong, http.StatusTooManyRequests},
		{"2001:db8::2", right, http.StatusSeeOther},
		{"2001:db8::3", url.Values{"token": {viewerToken}}, http.StatusSeeOther},
		{"2001:db8::4", wrong, http.StatusTooManyRequests},
		{"2001:db8::4", right, http.StatusSeeOther},
		{"198.51.100.7", right, http.StatusSeeOther},
		{"198.51.100.7", wrong, http.StatusForbidden},
	} {
		from = tc.from
		if status, body, _ := o.do(http.MethodPost, "/console/sign-in", tc.token); status != tc.status {
			t.Errorf("%s: %d, want %d\n%s", from, status, tc.status, body)
		}
	}
}

// TestConsoleBehindProxy checks that the console requires HTTPS behind a trusted proxy, and sets a secure cookie.
func TestConsoleBehindProxy(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_SERVER__TRUSTED_PROXIES=192.0.2.1")
	o := browse("")
	proto := "http"
	o.edit = func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:50000"
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		r.Header.Set("X-Forwarded-Host", "admin.example.org")
		r.Header.Set("X-Forwarded-Proto", proto)
		if r.Method == http.MethodPost {
			r.Header.Set("Origin", proto+"://admin.example.org")
		}
	}
	form := url.Values{"token": {a.Config().Server.AdminToken.Reveal()}}
	o.want("without TLS", http.StatusForbidden, "needs a connection from this machine", http.MethodPost, "/console/sign-in", form)
	proto = "https"
	o.want("with TLS", http.StatusSeeOther, "/console/", http.MethodPost, "/console/sign-in", form)
	if !strings.HasPrefix(o.cookie, "__Host-") {
		t.Errorf("the cookie is %s", o.cookie)
	}
	o.want("the overview", http.StatusOK, "tokenserver", http.MethodGet, "/console/", nil)
}

// TestConsoleNetworks checks requests through a container's published port, which come from the bridge's address.
func TestConsoleNetworks(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_SERVER__CONSOLE_NETWORKS=172.17.0.1,fd00::/64", "HOLDFAST_SERVER__TRUSTED_PROXIES=172.16.0.0/12")
	o := browse("")
	form := url.Values{"token": {a.Config().Server.AdminToken.Reveal()}}
	for _, from := range []struct {
		address, header string
		status          int
	}{
		{"172.17.0.1:50000", "", http.StatusSeeOther},
		{"[fd00::1]:50000", "", http.StatusSeeOther},
		{"172.17.0.2:50000", "", http.StatusForbidden},
		{"192.0.2.1:50000", "", http.StatusForbidden},
		{"172.17.0.1:50000", "X-Forwarded-For", http.StatusForbidden},
		{"[fd00::1]:50000", "Via", http.StatusForbidden},
	} {
		o.edit = func(r *http.Request) {
			if r.RemoteAddr = from.address; from.header != "" {
				r.Header.Set(from.header, "198.51.100.7")
			}
		}
		if status, body, _ := o.do(http.MethodPost, "/console/sign-in", form); status != from.status {
			t.Errorf("%+v: %d\n%s", from, status, body)
		}
	}
	o.edit = func(r *http.Request) { r.RemoteAddr, r.Host = "172.17.0.1:50000", "rebound.example:8001" }
	o.want("another host", http.StatusMisdirectedRequest, "Unknown Host", http.MethodGet, "/console/", nil)
}

func TestConsoleLink(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	at := time.Now()
	a.now = func() time.Time { return at }
	c, err := a.newConsole()
	if err != nil {
		t.Fatal(err)
	}
	a.console = c
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := func() string {
		hint, ok := a.consoleHint([]listener{{service.Main, l}, {service.Admin, l}})
		path, found := strings.CutPrefix(hint.Lines[0], "http://"+l.Addr().String())
		if !ok || !found {
			t.Fatalf("the hint is %+v", hint)
		}
		return path
	}
	var draining atomic.Bool
	o := browse("")
	o.h = a.adminHandler(&draining)
	former, path := link(), link()
	o.want("a replaced link", http.StatusForbidden, "The link was used", http.MethodGet, former, nil)
	if status, _, _ := o.do(http.MethodHead, path, nil); status != http.StatusForbidden {
		t.Errorf("a HEAD request signs in: %d", status)
	}
	o.want("the link", http.StatusSeeOther, "/console/", http.MethodGet, path, nil)
	o.want("the overview", http.StatusOK, "Sign out", http.MethodGet, "/console/", nil)
	o.want("the link again", http.StatusSeeOther, "/console/", http.MethodGet, path, nil)
	o.cookie = ""
	o.want("a used link", http.StatusForbidden, "The link was used", http.MethodGet, path, nil)
	path, at = link(), at.Add(time.Hour)
	o.want("an expired link", http.StatusForbidden, "The link was used", http.MethodGet, path, nil)
	if _, ok := a.consoleHint(nil); ok {
		t.Error("there is a link without a listener")
	}
}

// TestConsoleUpdates checks that an open page gets only changed parts, without extending the session.
func TestConsoleUpdates(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	a.now = func() time.Time { return at }
	c, err := a.newConsole()
	if err != nil {
		t.Fatal(err)
	}
	a.console = c
	o := browse("")
	var draining atomic.Bool
	o.h = a.adminHandler(&draining)
	o.want("sign-in", http.StatusSeeOther, "/console/", http.MethodPost, "/console/sign-in", url.Values{"token": {a.Config().Server.AdminToken.Reveal()}})
	page := o.want("the page", http.StatusOK, `hx-get="/console/" hx-trigger="every 60s"`, http.MethodGet, "/console/", nil)
	for _, want := range []string{`name="htmx-config"`, "/console/static/lib/htmx.min.js?v=", "/console/static/lib/uPlot.min.js?v="} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if page := o.want("another page", http.StatusOK, "console.js", http.MethodGet, "/console/settings", nil); strings.Contains(page, "uPlot") {
		t.Errorf("a page without charts loads their library:\n%s", page)
	}
	version := ""
	o.edit = func(r *http.Request) {
		r.Header.Set("HX-Request", "true")
		r.Header.Set("X-Part-Version", version)
	}
	body := o.want("an update", http.StatusOK, `<div id="live"`, http.MethodGet, "/console/", nil)
	if strings.Contains(body, "<html") || !strings.Contains(body, "<h2>Services</h2>") {
		t.Errorf("the part is\n%s", body)
	}
	version = regexp.MustCompile(`X-Part-Version&#34;:&#34;([0-9a-f]{16})`).FindStringSubmatch(body)[1]
	// Sizes may still change after the start.
	for deadline := time.Now().Add(time.Minute); ; {
		status, body, _ := o.do(http.MethodGet, "/console/", nil)
		if status == http.StatusNoContent {
			break
		} else if status != http.StatusOK || time.Now().After(deadline) {
			t.Fatalf("%d\n%s", status, body)
		}
		version = regexp.MustCompile(`X-Part-Version&#34;:&#34;([0-9a-f]{16})`).FindStringSubmatch(body)[1]
	}
	header := func(what, path, name, want string, status int) {
		t.Helper()
		if got, body, h := o.do(http.MethodGet, path, nil); got != status || h.Get(name) != want {
			t.Errorf("%s: %d, %s %q\n%s", what, got, name, h.Get(name), body)
		}
	}
	header("a page without such a part", "/console/settings", "HX-Refresh", "true", http.StatusNoContent)
	header("no such page", "/console/nothing", "HX-Refresh", "true", http.StatusNotFound)
	at = at.Add(29 * time.Minute)
	if status, body, _ := o.do(http.MethodGet, "/console/", nil); status >= http.StatusBadRequest {
		t.Errorf("before the end of the session: %d\n%s", status, body)
	}
	at = at.Add(2 * time.Minute)
	header("after the end of the session", "/console/settings", "HX-Redirect", "/console/sign-in?next="+url.QueryEscape("settings?"), http.StatusUnauthorized)
}

func TestConsoleServer(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_EXTSTORAGE__TIERS__LARGE__BYTES=5000000000", "HOLDFAST_GUEST__ENABLED=false")
	o := browse(a.Config().Server.AdminToken.Reveal())
	o.want("no chart", http.StatusOK, "The chart begins a minute after the server", http.MethodGet, "/console/", nil)
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range overview.MaxPoints + 5 {
		for range i % 3 {
			a.metrics.Request("test", "route", http.MethodGet, http.StatusOK, 40*time.Millisecond)
		}
		a.overview.History.Add(overview.Point{
			At: start.Add(time.Duration(i) * time.Minute), Traffic: a.metrics.Traffic(), Shed: int64(i) * 30,
			Sizes: map[string]int64{a.databases()[0].Where: int64(i) << 20},
		})
	}
	points := a.overview.History.Points()
	if len(points) != overview.MaxPoints {
		t.Errorf("%d points", len(points))
	}
	page := o.want("charts", http.StatusOK, `aria-label="Requests, 03:05 to 04:05 UTC. Requests: now 0.0333/s, at most 0.0333/s. Server errors: now 0/s, at most 0/s. Rejected because of overload: now 0.5/s, at most 0.5/s"`, http.MethodGet, "/console/", nil)
	for _, want := range []string{"99th percentile: 50 ms", "03:05", "04:05 UTC", "<path d=\"M", "Deleted objects to remove", "Database size", ">disabled<", "now 65.0 MiB", " in 60 minutes", "holdfast backup makes one"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	for span, want := range map[string]string{
		"day": "Requests, 03:09 to 04:05 UTC. Requests: now 0.0", "week": "Requests, 03:59 to 04:05 UTC", "%3Cb%3E": "Requests, 03:05 to 04:05 UTC",
	} {
		page := o.want(span, http.StatusOK, want, http.MethodGet, "/console/?span="+span, nil)
		if current := map[string]string{"day": "Day", "week": "Week"}[span]; !strings.Contains(page, `aria-current="true">`+cmp.Or(current, "Hour")+"</a>") || !strings.Contains(page, `hx-get="/console/?span=`) {
			t.Errorf("the span %s is not the current one in\n%s", span, page)
		}
	}
	now := points[overview.MaxPoints-1]
	if before := now.Traffic.Requests; a.metrics.Traffic().Requests != before {
		t.Error("requests of the console count as traffic")
	}
	for i := range 4 {
		if i == 2 {
			a.metrics.Request("test", "route", http.MethodGet, http.StatusOK, 40*time.Millisecond)
		}
		now.At, now.Traffic = now.At.Add(time.Minute), a.metrics.Traffic()
		a.overview.History.Add(now)
	}
	o.want("a single value", http.StatusOK, "h-3", http.MethodGet, "/console/", nil)
	page = o.want("the settings", http.StatusOK, `>server.listen<`, http.MethodGet, "/console/settings", nil)
	for _, want := range []string{">HOLDFAST_SERVER__VIEWER_TOKEN<", ">secrets file<", ">default<", ">extstorage.tiers.large.bytes<", ">5000000000<", ">HOLDFAST_EXTSTORAGE__TIERS__LARGE__BYTES<", "buckets.key_secret"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	for _, secret := range []string{viewerToken, a.Config().Server.AdminToken.Reveal(), a.Config().Server.MasterSecret.Reveal()} {
		if strings.Contains(page, secret) {
			t.Errorf("a secret is in\n%s", page)
		}
	}
}

func TestConsoleUpkeep(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	now := time.Date(2026, 1, 20, 3, 0, 0, 0, time.UTC)
	a.overview.Clock = func() time.Time { return now }
	a.overview.Sweeps.Clock = a.overview.Clock
	record := func(path string, lost int64) {
		t.Helper()
		b := &backup.Server{Services: a.running(), Data: a.data, Clock: a.overview.Clock}
		if err := b.Record(path, lost, nil); err != nil {
			t.Fatal(err)
		}
	}
	record("backups/today", 0)
	o.want("a backup", http.StatusOK, "0<small> minutes ago</small>", http.MethodGet, "/console/", nil)
	now = now.Add(8 * 24 * time.Hour)
	o.want("an old backup", http.StatusOK, "Warning</span> 8<small> days ago</small>", http.MethodGet, "/console/", nil)
	record("backups/today", 2)
	o.want("an incomplete backup", http.StatusOK, "without 2 files that could not be read", http.MethodGet, "/console/", nil)
	if err := os.WriteFile(filepath.Join(a.data, backup.RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.want("a broken record", http.StatusOK, "cannot be read", http.MethodGet, "/console/", nil)

	a.overview.Sweeps.Expect("a", time.Hour, now)
	a.overview.Sweeps.Expect("b", time.Hour, now)
	o.want("sweeps", http.StatusOK, "not due yet", http.MethodGet, "/console/sweeps", nil)
	a.overview.Sweeps.Note("a", 7, nil, now)
	a.overview.Sweeps.Note("a", 5, nil, now)
	now = now.Add(3*time.Hour + 11*time.Minute)
	a.overview.Sweeps.Note("b", 1, errors.New("<b>"), now)
	o.want("late sweeps", http.StatusOK, "1 failed, 1 late", http.MethodGet, "/console/", nil)
	page := o.want("the sweeps", http.StatusOK, "failed: &lt;b&gt;", http.MethodGet, "/console/sweeps", nil)
	for _, want := range []string{"</span> late<", "Removed then\">5<", "start\">12<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

// TestConsoleRefusesChanges checks that each change is refused without a CSRF token, from another site and for a
// viewer, before it reads data.
func TestConsoleRefusesChanges(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	for _, one := range a.console.Sections {
		for i := range one.Pages {
			for j := range one.Pages[i].Actions {
				act := &one.Pages[i].Actions[j]
				act.Run = func(context.Context, *service.PageRequest) (service.Outcome, error) {
					t.Errorf("%s %s was run", one.Title, act.Name)
					return service.Outcome{}, nil
				}
			}
		}
	}
	o, v, nobody := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken), browse("")
	right, read := o.form("/console/"), v.form("/console/")
	forged := url.Values{"csrf": {strings.Repeat("0", 64)}}
	actions := 0
	for _, one := range a.console.Sections {
		for _, page := range one.Pages {
			for _, act := range page.Actions {
				actions++
				o.isFile, v.isFile, nobody.isFile = act.Uploads, act.Uploads, act.Uploads
				path := "/console" + strings.TrimSuffix("/"+one.Name, "/") + "/" + page.Path + "?do=" + act.Name
				refused := func(what string, o *operator, form url.Values) {
					t.Helper()
					if status, body, _ := o.do(http.MethodPost, path, form); status != http.StatusForbidden && status != http.StatusMisdirectedRequest {
						t.Errorf("%s %s: %d\n%s", path, what, status, body)
					}
				}
				refused("without a session", nobody, right)
				refused("without a token", o, url.Values{})
				refused("with a forged token", o, forged)
				refused("with the token of another session", o, read)
				if !act.Reads {
					refused("as a viewer", v, read)
				}
				for what, edit := range map[string]func(*http.Request){
					"from another origin": func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8000") },
					"without an origin":   func(r *http.Request) { r.Header.Del("Origin") },
					"from another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
					"for another host":    func(r *http.Request) { r.Host = "rebound.example:8001" },
				} {
					o.edit = edit
					refused(what, o, right)
				}
				o.edit = nil
				o.do(http.MethodGet, path, nil)
			}
		}
	}
	if actions < 30 {
		t.Errorf("only %d actions", actions)
	}
}

// TestConsoleEndpoint checks that an object's link is limited to this machine unless the S3 address is configured.
func TestConsoleEndpoint(t *testing.T) {
	t.Parallel()
	for domain, notice := range map[string]bool{"": true, "s3.example.org": false} {
		a, browse := openConsole(t, "HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org", "HOLDFAST_BUCKETS__DOMAIN="+domain)
		o := browse(a.Config().Server.AdminToken.Reveal())
		page := o.want("a new account", http.StatusOK, "Secret key", http.MethodPost, "/console/buckets/accounts?do=create", o.form("/console/", "account", "tester"))
		if strings.Contains(page, "set buckets.domain") != notice || !notice && !strings.Contains(page, ">https://s3.example.org<") {
			t.Errorf("domain %q:\n%s", domain, page)
		}
	}
}

func TestConsoleOff(t *testing.T) {
	t.Parallel()
	_, browse := openConsole(t, "HOLDFAST_SERVER__CONSOLE=false")
	if status, _, _ := browse("").do(http.MethodGet, "/console/", nil); status != http.StatusUnauthorized {
		t.Errorf("off: %d", status)
	}
}
