package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/web/webtest"
)

type client struct {
	t testing.TB
	*server
	tenant, install string
	token           string
}

const everything = `{"a":"rw","b":"rw","c":"r","d":"w"}`

func newClient(t testing.TB) *client { return start(t, setup{}).install(t) }

func (s *server) install(t testing.TB) *client {
	n := s.made.Add(1)
	return s.installOf(t, fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

func (s *server) installOf(t testing.TB, tenant string) *client {
	c := &client{t: t, server: s, tenant: tenant, install: fmt.Sprintf("11111111-1111-4111-8111-%012d", s.made.Add(1))}
	c.token = s.sign(t, c.claims(everything))
	return c
}

func (c *client) claims(ns string) map[string]any {
	return map[string]any{"tenant_id": c.tenant, "install_id": c.install, "ns": json.RawMessage(ns), "sub": "5b0c11c1-ab6c-4c5e-9b0c-0d7a3b1d2e3f"}
}

func (s *server) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	token, err := s.tokens.Sign(claims, s.clock.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (c *client) with(token string) *client {
	other := *c
	other.token = token
	return &other
}

func (c *client) granted(ns string) *client { return c.with(c.sign(c.t, c.claims(ns))) }

// path returns a target in the client's install, exactly as it is sent. A target under /ext is used unchanged.
func (c *client) path(inner string) string {
	if strings.HasPrefix(inner, "/ext") {
		return inner
	}
	return "/ext/v1/installs/" + c.install + inner
}

// request returns a request with the client's token and a JSON body. Headers are "Name: value"; an empty value omits the
// header.
func (c *client) request(method, target string, body io.Reader, headers ...string) *http.Request {
	c.t.Helper()
	return c.requestTo(c.URL, method, c.path(target), body, headers...)
}

func (c *client) requestTo(base, method, target string, body io.Reader, headers ...string) *http.Request {
	c.t.Helper()
	r := webtest.Request(c.t, base, method, target, body)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if method == http.MethodPatch && !strings.Contains(target, "/schemas/") {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	webtest.SetHeaders(r, headers...)
	return r
}

func (c *client) do(method, inner, body string, headers ...string) *answer {
	c.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return c.send(c.request(method, inner, r, headers...))
}

func (c *client) get(inner string, headers ...string) *answer {
	c.t.Helper()
	return c.do(http.MethodGet, inner, "", headers...)
}

func (c *client) put(key, body string, headers ...string) *answer {
	c.t.Helper()
	return c.do(http.MethodPut, records+"/"+key, body, headers...)
}

func (c *client) post(inner, body string, headers ...string) *answer {
	c.t.Helper()
	return c.do(http.MethodPost, inner, body, headers...)
}

func (c *client) patch(inner, body string, headers ...string) *answer {
	c.t.Helper()
	return c.do(http.MethodPatch, inner, body, headers...)
}

func (c *client) delete(key string, headers ...string) *answer {
	c.t.Helper()
	return c.do(http.MethodDelete, records+"/"+key, "", headers...)
}

const records = "/namespaces/a/records"

func (c *client) send(r *http.Request) *answer {
	c.t.Helper()
	return c.sendBy(c.server.client, r)
}

func (c *client) sendBy(by *http.Client, r *http.Request) *answer {
	c.t.Helper()
	res, err := by.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("%s %s: read the body: %v", r.Method, r.URL.Opaque, err)
	}
	text, isLine := strings.CutSuffix(string(body), "\n")
	if !isLine && text != "" && res.Header.Get("Content-Type") == "application/json" {
		c.t.Errorf("%s %s: the response does not end with a newline: %q", r.Method, r.URL.Opaque, clip(text))
	}
	if res.Header.Get("Content-Type") != "application/json" {
		text = string(body)
	}
	a := &answer{t: c.t, what: r.Method + " " + r.URL.Opaque, method: r.Method, status: res.StatusCode, header: res.Header, body: text}
	a.lawful()
	return a
}

type answer struct {
	t            testing.TB
	what, method string
	status       int
	header       http.Header
	body         string
}

type problem struct {
	Code            string
	Message         string
	CurrentRevision *int64
	Pointer         *string
	Index           *int
	Cause           string
	RequestID       string
}

// lawful checks the general rules in the API description.
func (a *answer) lawful() {
	a.t.Helper()
	fail := func(format string, args ...any) {
		a.t.Helper()
		a.t.Fatalf("%s: %d %q: %s\n%v", a.what, a.status, clip(a.body), fmt.Sprintf(format, args...), a.header)
	}
	if a.header.Get("X-Request-Id") == "" || a.header.Get("Cache-Control") != "private, no-cache" {
		fail("lacks X-Request-Id or Cache-Control")
	}
	if a.status < 400 {
		return
	}
	if a.method == http.MethodHead {
		return
	}
	switch p := a.problem(); {
	case (a.header.Get("Retry-After") != "") != (p.Code == "UNAVAILABLE" || p.Code == "RATE_LIMITED"):
		fail("Retry-After is there or not")
	case p.Code == "" || p.Message == "" || p.RequestID != a.header.Get("X-Request-Id"):
		fail("lacks code, message or the request's id")
	case (p.CurrentRevision != nil) != (p.Code == "REVISION_MISMATCH" || p.Cause == "REVISION_MISMATCH"):
		fail("currentRevision is there or not")
	case (p.Index != nil) != (p.Code == "BULK_PARTIAL_FAILURE"):
		fail("index is there or not")
	case a.header.Get("ETag") != "" || a.header.Get("Location") != "":
		fail("an error has what an answer has")
	}
}

func (a *answer) problem() problem {
	a.t.Helper()
	var body struct{ Error problem }
	a.into(&body)
	return body.Error
}

func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: %d %q; want %d", a.what, a.status, clip(a.body), status)
	}
	return a
}

// fails checks an error's status and code, and optionally "pointer /x", "index 3", "cause X" and "revision 2".
func (a *answer) fails(status int, code string, more ...string) *answer {
	a.t.Helper()
	a.is(status)
	p := a.problem()
	has := map[string]string{"cause": p.Cause}
	if p.Pointer != nil {
		has["pointer"] = *p.Pointer
	}
	if p.Index != nil {
		has["index"] = fmt.Sprint(*p.Index)
	}
	if p.CurrentRevision != nil {
		has["revision"] = fmt.Sprint(*p.CurrentRevision)
	}
	ok := p.Code == code
	for _, want := range more {
		name, value, _ := strings.Cut(want, " ")
		ok = ok && has[name] == value
	}
	if !ok {
		a.t.Fatalf("%s: %q; want %s %q", a.what, clip(a.body), code, more)
	}
	return a
}

// has checks a header, which must be absent if value is "".
func (a *answer) has(name, value string) *answer {
	a.t.Helper()
	if got := a.header.Get(name); got != value {
		a.t.Fatalf("%s: %s is %q; want %q", a.what, name, got, value)
	}
	return a
}

func (a *answer) into(v any) {
	a.t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		a.t.Fatalf("%s: %q: %v", a.what, clip(a.body), err)
	}
}

func (a *answer) members() map[string]any {
	a.t.Helper()
	var m map[string]any
	a.into(&m)
	return m
}

func (a *answer) member(name string) string {
	a.t.Helper()
	var m map[string]json.RawMessage
	a.into(&m)
	return string(m[name])
}

func (a *answer) says(want string) *answer {
	a.t.Helper()
	var members map[string]any
	d := json.NewDecoder(strings.NewReader(want))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		a.t.Fatalf("%s: %v", want, err)
	}
	have := a.members()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if value, ok := have[name]; !ok || !reflect.DeepEqual(value, members[name]) {
			a.t.Fatalf("%s: %s is %v in %q; want %v", a.what, name, value, clip(a.body), members[name])
		}
	}
	return a
}

func (a *answer) keys() (keys []string, next string) {
	a.t.Helper()
	var page struct {
		Items      []struct{ Key string }
		NextCursor *string
	}
	a.is(http.StatusOK).into(&page)
	for _, item := range page.Items {
		keys = append(keys, item.Key)
	}
	if page.NextCursor != nil {
		next = *page.NextCursor
	}
	return keys, next
}

func clip(s string) string { return s[:min(len(s), 600)] }
