package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	since   = "X-If-Modified-Since: "
	unless  = "X-If-Unmodified-Since: "
	aStamp  = "1790000000.12" // record toys/a
	toStamp = "1790000001.12" // collection toys
	myStamp = "1790000002.12" // user
)

func conditional(s *server, t *testing.T) *user {
	u := s.user(t)
	u.clock.Set(t0)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200, aStamp)
	u.later(time.Second)
	u.put("/storage/toys/b", `{"payload":"x"}`).is(200, toStamp)
	u.later(time.Second)
	u.put("/storage/games/a", `{"payload":"x"}`).is(200, myStamp)
	return u
}

// TestPreconditions checks both headers on every path against the addressed resource.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		method, path, body, stamp string
		status                    int
	}{
		{"GET", "/info/collections", "", myStamp, 200},
		{"GET", "/info/collection_counts", "", myStamp, 200},
		{"GET", "/info/collection_usage", "", myStamp, 200},
		{"GET", "/info/quota", "", myStamp, 200},
		{"GET", "/storage/toys", "", toStamp, 200},
		{"GET", "/storage/toys?full&ids=a", "", toStamp, 200},
		{"GET", "/storage/toys/a", "", aStamp, 200},
		{"GET", "/storage/nothing", "", "0.00", 200},
		{"PUT", "/storage/toys/a", `{"payload":"y"}`, aStamp, 200},
		{"PUT", "/storage/toys/new", `{"payload":"y"}`, "0.00", 200},
		{"PUT", "/storage/nothing/new", `{"payload":"y"}`, "0.00", 200},
		{"POST", "/storage/toys", bsos("a", "c"), toStamp, 200},
		{"POST", "/storage/toys?batch=true", bsos("a", "c"), toStamp, 202},
		{"POST", "/storage/toys?batch=true&commit=true", bsos("a", "c"), toStamp, 200},
		{"POST", "/storage/nothing", bsos("a", "c"), "0.00", 200},
		{"DELETE", "/storage/toys/a", "", aStamp, 200},
		{"DELETE", "/storage/toys?ids=a", "", toStamp, 200},
		{"DELETE", "/storage/toys?ids=nobody", "", toStamp, 200},
		{"DELETE", "/storage/toys", "", toStamp, 200},
		{"DELETE", "/storage/nothing", "", "0.00", 200},
		{"DELETE", "/storage", "", myStamp, 200},
		{"DELETE", "", "", myStamp, 200},
	} {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			t.Parallel()
			s := start(t, setup{})
			at := seconds(t, r.stamp)
			before, after := fmt.Sprintf("%.2f", max(at-0.01, 0)), fmt.Sprintf("%.2f", at+0.01)
			u := conditional(s, t)
			all := u.everything()
			refused := func(status int, headers ...string) *answer {
				t.Helper()
				a := u.do(r.method, r.path, r.body, headers...).is(status)
				if now := u.everything(); now != all {
					t.Errorf("%q left a trace:\n%s\n%s", headers, all, now)
				}
				return a
			}
			met := []string{unless + r.stamp, unless + after, unless + "99999999999999999999"}
			if r.stamp != "0.00" {
				met = append(met, since+before)
				refused(412, unless+before).has("X-Last-Modified", r.stamp)
				refused(412, unless+"0").has("X-Last-Modified", r.stamp)
			}
			for _, value := range []string{r.stamp, after, "99999999999999999999"} {
				refused(304, since+value).has("X-Last-Modified", r.stamp)
			}
			for _, value := range []string{"x", "-1", "-0.01", "nan", "NaN", "inf", "1e9", ".", "1,2", "1.2.3", "1 2", "+1", "1_0", "0x10", `"1"`, "Sat, 21 Nov 2026 03:14:20 GMT"} {
				u.do(r.method, r.path, r.body, unless+value).is(400, "0")
				u.do(r.method, r.path, r.body, since+value).is(400, "0")
			}
			refused(400, unless+r.stamp, unless+r.stamp)
			refused(400, since+before, since+before)
			refused(400, since+before, unless+r.stamp)
			for _, header := range met {
				conditional(s, t).do(r.method, r.path, r.body, header).is(r.status)
			}
		})
	}
}

func (u *user) everything() string {
	u.t.Helper()
	a := u.get("/info/collections").is(200)
	all := a.modified() + " " + a.body + u.get("/info/collection_usage").is(200).body
	for _, name := range []string{"toys", "games", "nothing"} {
		a := u.get("/storage/" + name + "?full").is(200)
		all += "\n" + name + " " + a.modified() + " " + a.body
	}
	return all
}

// TestEmptyPrecondition checks that an empty header is not ignored, because the write would become unconditional.
func TestEmptyPrecondition(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, name := range []string{"X-If-Unmodified-Since", "X-If-Modified-Since"} {
		r := u.request("DELETE", u.path("/storage/toys"), nil)
		r.Header[name] = []string{""}
		u.send(r).is(400, "0")
	}
	u.get("/info/collections", unless+"  0 ").is(200)
}

func TestConfigurationHasNoPrecondition(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, header := range []string{since + "0", unless + "x", since + "99999999999"} {
		u.get("/info/configuration", header).is(200).has("X-Last-Modified", "0.00")
	}
}

// TestCreateOnly checks that a precondition of 0 never overwrites. Reading an absent record returns 404 with any
// precondition.
func TestCreateOnly(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{"payload":"first"}`, unless+"0").is(200)
	u.put("/storage/toys/a", `{"payload":"second"}`, unless+"0").is(412)
	u.put("/storage/toys/a", `{"payload":"second"}`, unless+"0.00").is(412).has("X-Last-Modified", aStamp)
	u.post("/storage/toys", bsos("b"), unless+"0").is(412)
	u.get("/storage/toys/b", since+"0").is(404, "0")
	u.delete("/storage/toys/b", unless+"0").is(404, "0")
	if got := u.get("/storage/toys/a").record().Payload; got != "first" {
		t.Errorf("the payload is %q", got)
	}
	u.put("/storage/toys/a", `{"ttl":1}`).is(200)
	u.later(2 * time.Second)
	u.put("/storage/toys/a", `{"payload":"third"}`, unless+"0").is(200) // the first record has expired
}

func TestOneWins(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	seen := u.post("/storage/toys", bsos("a")).is(200).modified()
	const clients = 8
	status := make([]int, clients)
	var wg sync.WaitGroup
	for i := range clients {
		r := u.request("POST", u.path("/storage/toys"), strings.NewReader(fmt.Sprintf(`[{"id":"a","payload":"%d"}]`, i)), unless+seen)
		wg.Go(func() { status[i] = u.status(r) })
	}
	wg.Wait()
	won := 0
	for i, s := range status {
		switch s {
		case 200:
			won++
			if got := u.get("/storage/toys/a").record().Payload; got != fmt.Sprint(i) {
				t.Errorf("client %d won and %s is stored", i, got)
			}
		case 412:
		default:
			t.Errorf("client %d: %d", i, s)
		}
	}
	if won != 1 {
		t.Errorf("%d clients won", won)
	}
}

// TestRetries checks that a retry tells a client whether the first request succeeded.
func TestRetries(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	seen := u.put("/storage/toys/a", `{"payload":"1"}`).is(200).body
	wrote := u.put("/storage/toys/a", `{"payload":"2"}`, unless+seen).is(200).body
	u.put("/storage/toys/a", `{"payload":"2"}`, unless+seen).is(412).has("X-Last-Modified", wrote)
	wrote = u.post("/storage/toys", bsos("b"), unless+wrote).is(200).modified()
	u.post("/storage/toys", bsos("b"), unless+seen).is(412).has("X-Last-Modified", wrote)

	id := u.open("toys", bsos("c"))
	u.post("/storage/toys?batch="+id, bsos("d")).is(202)
	u.post("/storage/toys?batch="+id, bsos("d")).is(202)
	u.post("/storage/toys?commit=true&batch="+id, "[]").is(200)
	u.post("/storage/toys?commit=true&batch="+id, "[]").is(400, "0")
	u.get("/storage/toys").is(200, `["d","c","b","a"]`)

	u.delete("/storage/toys/a").is(200)
	u.delete("/storage/toys/a").is(404, "0")
	u.delete("/storage/toys?ids=b").is(200)
	u.delete("/storage/toys?ids=b").is(200)
	gone := u.delete("/storage/toys").is(200).body
	u.delete("/storage/toys").is(200, gone)
	u.delete("").is(200, "null")
	u.delete("").is(200, "null")
}
