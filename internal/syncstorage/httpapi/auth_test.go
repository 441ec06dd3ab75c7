//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	ss "holdfast/internal/syncstorage"
)

func claims(uid int64) tokenlib.Claims { return tokenlib.Claims{UID: uid} }

func (u *user) refused(change func(*http.Request)) {
	u.t.Helper()
	for _, target := range []string{"/info/collections", "/info/quota", "/storage/toys", "/storage/toys/a", "/storage/toys/b"} {
		r := u.request("GET", u.path(target), nil)
		change(r)
		u.send(r).is(401, "0").has("WWW-Authenticate", "Hawk").has("Content-Type", "application/json")
	}
	put := u.request("PUT", u.path("/storage/toys/b"), strings.NewReader(`{"payload":"x"}`))
	change(put)
	u.send(put).is(401, "0")
	wipe := u.request("DELETE", u.path(""), nil)
	change(wipe)
	u.send(wipe).is(401, "0")
}

func TestHawkHeader(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	set := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	edit := func(old, now string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, now, 1))
		}
	}
	mac := strings.Repeat("A", 43) + "="
	for name, change := range map[string]func(*http.Request){
		"none":            func(r *http.Request) { r.Header.Del("Authorization") },
		"empty":           set(""),
		"scheme only":     set("Hawk"),
		"no fields":       set("Hawk "),
		"basic":           set("Basic dXNlcjpwYXNz"),
		"bearer":          set("Bearer token"),
		"garbage":         set("Hawk \xff\xfe=,,;\""),
		"twice":           func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) },
		"id empty":        edit(`id="`+u.id+`"`, `id=""`),
		"id unknown":      edit(u.id, "nobody"),
		"id cut":          edit(u.id, u.id[:len(u.id)-4]),
		"id changed":      edit(u.id[:8], "AAAAAAAA"),
		"id long":         edit(u.id, strings.Repeat("A", 3000)),
		"field twice":     edit(`nonce="`, `nonce="x", nonce="`),
		"unknown field":   edit(`nonce="`, `app="x", nonce="`),
		"other nonce":     edit(`nonce="`, `nonce="x`),
		"signed ext":      edit(`nonce="`, `ext="x", nonce="`),
		"bad hash":        edit(`nonce="`, `hash="x", nonce="`),
		"unsigned hash":   edit(`nonce="`, `hash="`+mac+`", nonce="`),
		"other mac":       set(fmt.Sprintf(`Hawk id="%s", ts="1790000000", nonce="n", mac="%s"`, u.id, mac)),
		"no mac":          set(fmt.Sprintf(`Hawk id="%s", ts="1790000000", nonce="n"`, u.id)),
		"no ts":           set(fmt.Sprintf(`Hawk id="%s", nonce="n", mac="%s"`, u.id, mac)),
		"ts negative":     set(fmt.Sprintf(`Hawk id="%s", ts="-1", nonce="n", mac="%s"`, u.id, mac)),
		"ts huge":         set(fmt.Sprintf(`Hawk id="%s", ts="%s", nonce="n", mac="%s"`, u.id, strings.Repeat("9", 40), mac)),
		"unclosed quote":  set(`Hawk id="`),
		"another target":  func(r *http.Request) { r.URL.Opaque += "?full=1" },
		"another method":  func(r *http.Request) { u.resign(r, func(s *hawk.Request) { s.Method = "POST" }) },
		"another host":    func(r *http.Request) { u.resign(r, func(s *hawk.Request) { s.Host = "example.org" }) },
		"another port":    func(r *http.Request) { u.resign(r, func(s *hawk.Request) { s.Port++ }) },
		"decoded target":  func(r *http.Request) { r.URL.Opaque = escapeLast(r.URL.Opaque) },
		"more to be read": func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")+", ") },
	} {
		t.Run(name, func(t *testing.T) { (&user{t, u.server, u.uid, u.id, u.secret}).refused(change) })
	}
	u.get("/storage/toys").is(200, `["a"]`)
	u.send(u.unsigned("GET", u.path("/info/configuration"), nil, "Authorization: garbage")).is(200)
}

func escapeLast(target string) string {
	n := len(target) - 1
	return fmt.Sprintf("%s%%%02X", target[:n], target[n])
}

func (u *user) resign(r *http.Request, change func(*hawk.Request)) {
	u.t.Helper()
	host, port, err := hawk.HostPort(r.URL.Host, "http")
	if err != nil {
		u.t.Fatal(err)
	}
	signed := hawk.Request{Method: r.Method, Target: r.URL.Opaque, Host: host, Port: port}
	change(&signed)
	h := hawk.Header{ID: u.id, TS: u.clock.Now().Unix(), Nonce: "nonce"}
	r.Header.Set("Authorization", h.Sign(u.secret, signed).String())
}

func TestHawkAccepts(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for name, change := range map[string]func(*hawk.Request){
		"as it is":             func(*hawk.Request) {},
		"method in lower case": func(s *hawk.Request) { s.Method = strings.ToLower(s.Method) },
		"host in capitals":     func(s *hawk.Request) { s.Host = strings.ToUpper(s.Host) },
	} {
		r := u.request("GET", u.path("/info/collections"), nil)
		u.resign(r, change)
		if a := u.send(r); a.status != 200 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	// The signature covers the query as sent, with its escapes.
	u.get("/storage/toys?ids=%7Ba%7D,{b},c+d&full=%31&x=%zz").is(400, "0")
	u.get("/storage/toys?ids=%7Ba%7D,{b},c+d&full=%31&x=/?").is(200, "[]")
}

func TestClocks(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const year = 52 * 7 * 24 * time.Hour
	for off, status := range map[time.Duration]int{
		0: 200, time.Hour: 200, -time.Hour: 200, year: 200, time.Minute - year: 200, year + time.Minute: 401, -year - time.Minute: 401,
	} {
		r := u.unsigned("GET", u.path("/info/collections"), nil)
		if err := hawk.SignHTTP(r, u.id, u.secret, u.clock.Now().Add(off), ""); err != nil {
			t.Fatal(err)
		}
		u.send(r).is(status)
	}
}

func TestExpiredToken(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	u.later(tokenLife - time.Second)
	u.get("/storage/toys").is(200)
	u.later(time.Second)
	u.get("/info/collections").is(200, `{"toys":1790000000.12}`)
	u.send(u.request("GET", "/storage"+u.path("/info/collections"), nil)).is(200)
	u.get("/info/collections/").is(404, "0")
	for _, path := range []string{"/info/collection_counts", "/info/collection_usage", "/info/quota", "/storage/toys", "/storage/toys/a", "/storage/info/collections"} {
		u.get(path).is(401, "0")
	}
	u.put("/storage/toys/a", `{}`).is(401, "0")
	u.post("/storage/toys", `[]`).is(401, "0")
	u.delete("").is(401, "0")
	u.get("/info/configuration").is(200)

	stranger := u.server.user(t)
	stranger.id, stranger.secret = u.token(t, keyring(t, "another secret"), tokenlib.Claims{UID: stranger.uid, Expires: t0})
	stranger.get("/info/collections").is(401, "0")
	other := &user{t, u.server, u.uid, u.id, "another key"}
	other.get("/info/collections").is(401, "0")
}

// TestAnotherUsersPath checks that the status is 401, because a client then asks the tokenserver again.
func TestAnotherUsersPath(t *testing.T) {
	t.Parallel()
	a := newUser(t)
	b := a.server.user(t)
	b.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		a.send(a.request(method, b.path("/storage/toys/a"), strings.NewReader(`{"payload":"y"}`))).is(401, "0")
	}
	a.send(a.request("GET", b.path("/info/collections"), nil)).is(401, "0")
	a.send(a.request("DELETE", b.path(""), nil)).is(401, "0")
	a.send(a.request("GET", b.path("/info/configuration"), nil)).is(200)
	a.send(a.request("GET", fmt.Sprintf("/1.5/00%d/info/collections", a.uid), nil)).is(200)
	if got := b.get("/storage/toys/a").is(200).record().Payload; got != "x" {
		t.Errorf("the payload is %q", got)
	}
	a.get("/storage/toys").is(200, "[]")
}

func TestPayloadHash(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const body = `[{"id":"a","payload":"x"}]`
	send := func(hash, contentType string, chunked bool) *answer {
		t.Helper()
		r := u.unsigned("POST", u.path("/storage/toys"), strings.NewReader(body), "Content-Type: "+contentType)
		if chunked {
			r.ContentLength = -1
		}
		if err := hawk.SignHTTP(r, u.id, u.secret, u.clock.Now(), hash); err != nil {
			t.Fatal(err)
		}
		return u.send(r)
	}
	good := hawk.PayloadHash("application/json", []byte(body))
	for _, chunked := range []bool{false, true} {
		send(hawk.PayloadHash("application/json", []byte(body+" ")), "application/json", chunked).is(401, "0")
		send(hawk.PayloadHash("text/plain", []byte(body)), "application/json", chunked).is(401, "0")
		send(good, "text/plain", chunked).is(401, "0")
		u.get("/storage/toys").is(200, "[]").has("X-Last-Modified", "0.00")
	}
	send(good, "application/json", false).is(200)
	send(good, "application/json", true).is(200)
	send(good, "Application/JSON; charset=utf-8", false).is(200)

	// A request without a body may be signed with the hash of an empty body.
	r := u.unsigned("GET", u.path("/storage/toys"), nil)
	if err := hawk.SignHTTP(r, u.id, u.secret, u.clock.Now(), hawk.PayloadHash("", nil)); err != nil {
		t.Fatal(err)
	}
	u.send(r).is(200, `["a"]`)
}

func TestMasterSecretsRotate(t *testing.T) {
	t.Parallel()
	s := start(t, setup{secrets: []string{"new", "old"}})
	for master, status := range map[string]int{"new": 200, "old": 200, "older": 401} {
		u := s.user(t)
		u.id, u.secret = s.token(t, keyring(t, master), claims(u.uid))
		u.get("/info/collections").is(status)
	}
}

// TestTokenWithAccount checks that the account in the token selects the records, not only the number in the path.
func TestTokenWithAccount(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.id, u.secret = u.token(t, u.keys, tokenlib.Claims{UID: u.uid, FxAUID: "0123456789abcdef", FxAKID: "0000000002345-u7s", Origin: "rust"})
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	u.get("/storage/toys").is(200, `["a"]`)
}

// TestRevokedToken includes a token revoked while the request body arrives. Only the tokenserver may still delete the
// user's data.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	var revoked atomic.Int64
	checked := make(chan struct{}, 100)
	s := start(t, setup{revoked: func(o ss.Owner) bool {
		defer func() { checked <- struct{}{} }()
		return o.UID == revoked.Load()
	}})
	u, other := s.user(t), s.user(t)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	for len(checked) > 0 {
		<-checked
	}
	body, late := io.Pipe()
	answered := make(chan *answer)
	go func() { answered <- u.send(u.request("PUT", u.path("/storage/toys/late"), body)) }()
	<-checked // before the body
	revoked.Store(u.uid)
	_, _ = io.WriteString(late, `{"payload":"x"}`)
	late.Close()
	(<-answered).is(401)

	for _, method := range []string{"GET", "PUT", "DELETE"} {
		u.do(method, "/storage/toys/a", `{"payload":"y"}`).is(401)
	}
	u.get("/info/collections").is(401)
	other.put("/storage/toys/a", `{"payload":"x"}`).is(200)

	u.id, u.secret = u.token(t, u.keys, tokenlib.Claims{UID: u.uid, Origin: tokenlib.CleanupOrigin})
	u.get("/storage/toys").is(200, `["a"]`)
	u.delete("").is(200)
	u.get("/storage/toys").is(200, `[]`)
}

// TestPublicURL checks that a client signs the public address, whatever the proxy forwards.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	u := start(t, setup{public: "https://example.org/sync"}).user(t)
	for sent, signed := range map[string]string{
		"/sync" + u.path("/info/collections"):         "/sync" + u.path("/info/collections"),
		u.path("/info/collections"):                   "/sync" + u.path("/info/collections"),
		"/sync" + u.path("/storage/toys?ids=%7Ba%7D"): "/sync" + u.path("/storage/toys?ids=%7Ba%7D"),
		"/sync/storage" + u.path("/info/quota"):       "/sync/storage" + u.path("/info/quota"),
	} {
		r := u.unsigned("GET", sent, nil)
		u.resign(r, func(s *hawk.Request) { s.Host, s.Port, s.Target = "example.org", 443, signed })
		u.send(r).is(200)
		u.resign(r, func(s *hawk.Request) { s.Host, s.Port, s.Target = "example.org", 443, signed[len("/sync"):] })
		u.send(r).is(401)
		u.send(u.request("GET", sent, nil)).is(401)
	}
}
