package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/web/webtest"
)

type user struct {
	t testing.TB
	*server
	uid        int64
	id, secret string
}

func (s *server) user(t testing.TB) *user {
	u := &user{t: t, server: s, uid: 1000 + s.users.Add(1)}
	u.id, u.secret = s.token(t, s.keys, tokenlib.Claims{UID: u.uid})
	return u
}

const tokenLife = 24 * time.Hour

func (s *server) token(t testing.TB, keys *tokenlib.Keyring, c tokenlib.Claims) (id, key string) {
	t.Helper()
	if c.Expires.IsZero() {
		c.Expires = s.clock.Now().Add(tokenLife)
	}
	id, key, err := keys.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return id, key
}

func newUser(t testing.TB) *user { return start(t, setup{}).user(t) }

func (u *user) later(d time.Duration) { u.clock.Advance(d) }

func (u *user) path(inner string) string { return fmt.Sprintf("/1.5/%d%s", u.uid, inner) }

// request returns a signed request. Headers ("Name: value") may replace JSON as content type. A header without a value
// is omitted.
func (u *user) request(method, target string, body io.Reader, headers ...string) *http.Request {
	u.t.Helper()
	r := u.unsigned(method, target, body, headers...)
	if err := hawk.SignHTTP(r, u.id, u.secret, u.clock.Now(), ""); err != nil {
		u.t.Fatal(err)
	}
	return r
}

func (u *user) unsigned(method, target string, body io.Reader, headers ...string) *http.Request {
	u.t.Helper()
	r := webtest.Request(u.t, u.URL, method, target, body)
	webtest.SetHeaders(r, headers...)
	return r
}

func (u *user) do(method, inner, body string, headers ...string) *answer {
	u.t.Helper()
	var r io.Reader
	if body != "" || method == http.MethodPut || method == http.MethodPost {
		r = strings.NewReader(body)
	}
	return u.send(u.request(method, u.path(inner), r, headers...))
}

func (u *user) get(inner string, headers ...string) *answer {
	u.t.Helper()
	return u.do(http.MethodGet, inner, "", headers...)
}

func (u *user) put(inner, body string, headers ...string) *answer {
	u.t.Helper()
	return u.do(http.MethodPut, inner, body, headers...)
}

func (u *user) post(inner, body string, headers ...string) *answer {
	u.t.Helper()
	return u.do(http.MethodPost, inner, body, headers...)
}

func (u *user) delete(inner string, headers ...string) *answer {
	u.t.Helper()
	return u.do(http.MethodDelete, inner, "", headers...)
}

func (u *user) send(r *http.Request) *answer {
	u.t.Helper()
	res, err := u.Client().Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		u.t.Fatalf("%s %s: read the body: %v", r.Method, r.URL.Opaque, err)
	}
	a := &answer{t: u.t, what: r.Method + " " + r.URL.Opaque, status: res.StatusCode, header: res.Header, body: string(body)}
	if r.Method != http.MethodOptions {
		a.lawful(r.Method)
	}
	return a
}

// status may be called from any goroutine. It returns 0 on failure.
func (u *user) status(r *http.Request) int {
	res, err := u.Client().Do(r)
	if err != nil {
		u.t.Error(err)
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

var stampForm = regexp.MustCompile(`^\d+\.\d\d$`)

// lawful checks the protocol's requirements.
func (a *answer) lawful(method string) {
	a.t.Helper()
	fail := func(format string, args ...any) {
		a.t.Helper()
		a.t.Fatalf("%s: %d %q: %s\n%v", a.what, a.status, clip(a.body), fmt.Sprintf(format, args...), a.header)
	}
	now, modified := a.header.Get("X-Weave-Timestamp"), a.header.Get("X-Last-Modified")
	if !stampForm.MatchString(now) {
		fail("X-Weave-Timestamp is %q", now)
	}
	if modified != "" && !stampForm.MatchString(modified) {
		fail("X-Last-Modified is %q", modified)
	}
	if modified != "" && seconds(a.t, modified) > seconds(a.t, now) {
		fail("X-Last-Modified %s is after X-Weave-Timestamp %s", modified, now)
	}
	switch a.status {
	case http.StatusOK, http.StatusAccepted:
		if modified == "" {
			fail("no X-Last-Modified")
		}
	case http.StatusNotModified, http.StatusPreconditionFailed:
		if a.body != "" || modified == "" {
			fail("must be empty and have X-Last-Modified")
		}
		return
	case http.StatusMethodNotAllowed:
		if a.header.Get("Allow") == "" {
			fail("no Allow")
		}
		if method != http.MethodHead && a.body != "1" {
			fail("the body is not the protocol's code")
		}
	default:
		if modified != "" {
			fail("has X-Last-Modified")
		}
		if _, err := strconv.Atoi(a.body); err != nil && method != http.MethodHead {
			fail("the body is not a code of the protocol")
		}
	}
	if media := a.header.Get("Content-Type"); media != "application/json" && media != "application/newlines" {
		fail("Content-Type is %q", media)
	}
}

func (a *answer) is(status int, body ...string) *answer {
	a.t.Helper()
	if a.status != status || len(body) > 0 && a.body != body[0] {
		a.t.Fatalf("%s: %d %q; want %d %q", a.what, a.status, clip(a.body), status, body)
	}
	return a
}

// has checks a header; "" means absent.
func (a *answer) has(name, value string) *answer {
	a.t.Helper()
	if got := a.header.Get(name); got != value {
		a.t.Fatalf("%s: %s is %q; want %q", a.what, name, got, value)
	}
	return a
}

func (a *answer) modified() string { return a.header.Get("X-Last-Modified") }

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%s: %q: %v", a.what, clip(a.body), err)
	}
}

func (a *answer) numbers() map[string]json.Number {
	a.t.Helper()
	var m map[string]json.Number
	a.into(&m)
	return m
}

func (a *answer) ids() []string {
	a.t.Helper()
	list := []string{}
	a.into(&list)
	return list
}

type posted struct {
	Modified json.Number       `json:"modified"`
	Batch    string            `json:"batch"`
	Success  []string          `json:"success"`
	Failed   map[string]string `json:"failed"`
}

func (a *answer) posted() posted {
	a.t.Helper()
	var p posted
	a.into(&p)
	return p
}

type record struct {
	ID        string      `json:"id"`
	Modified  json.Number `json:"modified"`
	Payload   string      `json:"payload"`
	SortIndex *int64      `json:"sortindex"`
}

func (a *answer) record() record {
	a.t.Helper()
	var r record
	a.into(&r)
	return r
}

func seconds(t testing.TB, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func clip(s string) string { return s[:min(len(s), 300)] }

// bsos returns records with these IDs and the payload "x".
func bsos(ids ...string) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = bso(id, "x")
	}
	return "[" + strings.Join(list, ",") + "]"
}

func bso(id, payload string) string { return fmt.Sprintf(`{"id":%q,"payload":%q}`, id, payload) }
