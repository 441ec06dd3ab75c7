package httpapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/guest/httpapi"
	"holdfast/internal/web"
)

// guardedRoute is a wishlist change. path and body return its path and body, and read the path of the list or entry
// that the guard is about.
type guardedRoute struct {
	path, body, read func(b *browser) string
	status           int  // expected status
	entry            bool // the guard is about an entry, which may be missing
	missing          int  // expected status if the entry is missing
}

func fixed(text string) func(*browser) string { return func(*browser) string { return text } }

func atItem(b *browser) string { return "/wishlist/" + b.item() }

// guardedRoutes contains all wishlist changes except unguardedRoutes.
var guardedRoutes = map[string]guardedRoute{
	"POST /wishlist":                {fixed("/wishlist"), func(b *browser) string { return b.wish(b.nth(2)) }, fixed("/wishlist"), 201, false, 0},
	"PATCH /wishlist/{propertyId}":  {atItem, fixed(`{"note":"guarded"}`), atItem, 200, true, 404},
	"DELETE /wishlist/{propertyId}": {atItem, fixed(""), atItem, 204, true, 204},
	"POST /session/clear":           {fixed("/session/clear"), fixed(""), fixed("/wishlist"), 204, false, 0},
	"POST /session/link":            {fixed("/session/link"), func(b *browser) string { return `{"token":"` + userToken(b.t, "u-"+b.cookie[4:30]) + `"}` }, fixed("/wishlist"), 200, false, 0},
}

// unguardedRoutes do not change wishlists, or are tested separately.
var unguardedRoutes = []string{
	"PATCH /session/preferences", "PATCH /session/attributes", "POST /session", "DELETE /session/link", "DELETE /user/sessions", "DELETE /user/sessions/{sessionId}",
	"POST /session/recently-viewed", "POST /search", "POST /search/map", "POST /handoff/{tenantId}/{propertyId}", "POST /telemetry/page-view", "POST /telemetry/funnel",
}

// TestEveryChangeIsGuarded checks that all wishlist changes take a guard.
func TestEveryChangeIsGuarded(t *testing.T) {
	t.Parallel()
	inProfiles(t, func(t *testing.T, s *server) {
		for _, r := range httpapi.Routes(s.profile) {
			name := r.Method + " " + r.Label
			if _, guarded := guardedRoutes[name]; r.Method != http.MethodGet && !guarded && !slices.Contains(unguardedRoutes, name) {
				t.Errorf("%s is neither guarded nor unguarded", name)
			}
		}
		b := s.begin()
		for _, name := range unguardedRoutes {
			method, path, _ := strings.Cut(name, " ")
			if name == "PATCH /session/attributes" || !slices.Contains(httpapi.Routes(s.profile), web.Route{Label: path, Method: method}) {
				continue
			}
			path = strings.NewReplacer("{sessionId}", "gus_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", "{tenantId}", tenant, "{propertyId}", s.item()).Replace(path)
			for _, header := range []string{`If-Match: "a"`, `If-None-Match: "a"`} {
				if a := b.send(method, path, "", header); a.status != 400 || !strings.Contains(a.body, "is not supported by this request") {
					t.Errorf("%s with %s: %d %s", name, header, a.status, a.body)
				}
			}
		}
	})
}

// tagAt reads the wishlist's or an entry's tag, "" without an entry.
func (b *browser) tagAt(path string) string {
	b.t.Helper()
	a := b.send(http.MethodGet, path, "", `If-None-Match: "-"`)
	if a.status == 404 {
		return ""
	}
	b.check(a, 200)
	return a.header.Get("Etag")
}

// TestGuards walks all changes with all guard kinds, for existing and missing entries.
func TestGuards(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		for _, name := range slices.Sorted(maps.Keys(guardedRoutes)) {
			route := guardedRoutes[name]
			method, _, _ := strings.Cut(name, " ")
			// whether the guard holds for an entry that exists (lists always do), and for a missing entry
			for guard, c := range map[string]struct{ exists, missing bool }{
				"": {true, true}, "If-Match: TAG": {true, false}, `If-Match: "stale", TAG`: {true, false}, "If-Match: *": {true, false}, `If-Match: "stale"`: {false, false},
				"If-Match: W/TAG": {false, false}, "If-None-Match: *": {false, true}, "If-None-Match: TAG": {false, true}, "If-None-Match: W/TAG": {false, true}, `If-None-Match: "stale"`: {true, true},
			} {
				for _, exists := range []bool{true, false} {
					if !exists && !route.entry {
						continue
					}
					holds := c.exists
					if !exists {
						holds = c.missing
					}
					s.testGuard(name, guard, exists, holds)
				}
			}
			b := s.begin()
			for _, wrong := range []string{"If-Match: ", "If-Match: a", `If-Match: "a`, "If-None-Match: ", "If-None-Match: a", `If-Unmodified-Since: Mon, 23 Nov 2026 00:00:00 GMT`} {
				if a := b.send(method, route.path(b), route.body(b), wrong); a.status != 400 {
					t.Errorf("%s with %s: %d %s", name, wrong, a.status, a.body)
				}
			}
		}
	})
}

// testGuard sends a change with a guard, whose TAG is the current entity tag, on an entry that exists or not.
func (s *server) testGuard(name, guard string, exists, holds bool) {
	s.t.Helper()
	route := guardedRoutes[name]
	method, _, _ := strings.Cut(name, " ")
	b := s.begin()
	if exists {
		b.want(201, http.MethodPost, "/wishlist", b.wish(b.item()))
	}
	tag := b.tagAt(route.read(b))
	var headers []string
	if guard != "" {
		headers = []string{strings.ReplaceAll(guard, "TAG", cmp.Or(tag, `"none"`))}
	}
	path, body, before := route.path(b), route.body(b), b.want(200, http.MethodGet, "/wishlist", "").body
	what := fmt.Sprintf("%s with %s, exists %t", name, headers, exists)
	a := b.send(method, path, body, headers...)
	status := route.status
	if !exists {
		status = route.missing
	}
	if holds {
		if a.status != status {
			s.t.Errorf("%s: %d %s, want %d", what, a.status, a.body, status)
		}
		return
	}
	if a.status != 412 || !strings.Contains(a.body, `"code":"wishlist-changed"`) || a.header.Get("Etag") != tag {
		s.t.Errorf("%s: %d %s with the tag %s, want 412 and %s", what, a.status, a.body, a.header.Get("Etag"), tag)
	}
	b.want(200, http.MethodGet, "/wishlist", "", before)
}

// TestGuardedRepeat checks that a repeated request with a guard gets its answer, and that the guard belongs to the request.
func TestGuardedRepeat(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		b := s.begin()
		guard := "If-Match: " + b.tagAt("/wishlist")
		send := func(guard string) answer {
			return b.send(http.MethodPost, "/wishlist", b.wish(b.item()), "Idempotency-Key: guarded", guard)
		}
		first := send(guard)
		b.check(first, 201)
		if again := send(guard); again.status != 201 || again.body != first.body || again.header.Get("Etag") != first.header.Get("Etag") || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("repeated: %d %s %v", again.status, again.body, again.header)
		}
		b.check(send("If-Match: *"), 422, `"code":"idempotency-key-reused"`)
		b.check(send("X-Nothing: a"), 422, `"code":"idempotency-key-reused"`)
	})
}

// TestTags checks that lists and entries carry entity tags, which answers 304 and changes use.
func TestTags(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		nobody := &browser{server: s}
		empty := nobody.tagAt("/wishlist")
		nobody.want(404, http.MethodGet, "/wishlist/"+s.item(), "", `"code":"not-found"`)
		b := s.begin()
		if tag := b.tagAt("/wishlist"); tag != empty || tag == "" {
			t.Errorf("the tag of an empty list is %s, and %s without a session", tag, empty)
		}
		added := b.send(http.MethodPost, "/wishlist", b.wish(b.item()), "If-Match: "+empty)
		b.check(added, 201)
		entry := b.tagAt(atItem(b))
		if added.header.Get("Etag") != entry || entry == "" {
			t.Errorf("the new entry has the tag %s, and then %s", added.header.Get("Etag"), entry)
		}
		changed := b.send(http.MethodPatch, atItem(b), `{"note":"a"}`, "If-Match: "+entry)
		b.check(changed, 200)
		if tag := b.tagAt(atItem(b)); tag == entry || tag != changed.header.Get("Etag") {
			t.Errorf("the changed entry has the tag %s, before %s", tag, entry)
		}
		for _, path := range []string{"/wishlist", "/wishlist?limit=1", atItem(b)} {
			tag := b.tagAt(path)
			if a := b.send(http.MethodGet, path, "", "If-None-Match: "+tag); a.status != 304 || a.body != "" || a.header.Get("Etag") != tag {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
			b.check(b.send(http.MethodGet, path, "", `If-None-Match: "other"`), 200)
			b.check(b.send(http.MethodGet, path, "", "If-None-Match: other"), 400)
		}
		list := b.want(200, http.MethodGet, "/wishlist", "")
		if tag := list.header.Get("Etag"); (tag != "") == s.profile.IsHotel() {
			t.Errorf("without a condition, the list has the tag %q", tag)
		}
		if !s.profile.IsHotel() {
			items := parse[struct{ Items []struct{ Etag string } }](t, list.body).Items
			if len(items) != 1 || items[0].Etag != changed.header.Get("Etag") {
				t.Errorf("the list has the entries %v", items)
			}
		}
	})
}

// TestTagOfSpelledTenant checks that the tag of an entry does not depend on how the request spells the tenant.
func TestTagOfSpelledTenant(t *testing.T) {
	t.Parallel()
	inShops(t, func(t *testing.T, s *server) {
		b := s.begin()
		body := `{"itemId":"sku-1","tenantId":"` + spelledTenant(t) + `"}`
		for _, status := range []int{201, 200} {
			a := b.want(status, http.MethodPost, "/wishlist", body, spelledTenant(t))
			view := parse[struct{ Etag string }](t, a.body)
			if tag := b.tagAt("/wishlist/sku-1"); view.Etag != tag || a.header.Get("Etag") != tag {
				t.Errorf("the entry has the tag %s, and %s in its answer %s", tag, a.header.Get("Etag"), a.body)
			}
		}
	})
}

func TestAddQuantities(t *testing.T) {
	t.Parallel()
	inShops(t, func(t *testing.T, s *server) {
		b := s.begin()
		b.want(201, http.MethodPost, "/wishlist", `{"itemId":"sku-1","quantity":1}`, `"quantity":1`)
		b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1","quantity":2,"note":"other","source":"map"}`, `"quantity":3,"source":"detail","addedAt"`)
		b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1"}`, `"quantity":4`)
		b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1","quantity":1,"max":5}`, `"quantity":5`)
		over := func() answer {
			return b.send(http.MethodPost, "/wishlist", `{"itemId":"sku-1","max":5}`, "Idempotency-Key: over")
		}
		b.check(over(), 409, `"code":"quantity-limit"`, `"detail":"the quantity would be 6: the limit is 5"`)
		b.want(200, http.MethodPatch, "/wishlist/sku-1", `{"quantity":1}`)
		b.check(over(), 409, `"the quantity would be 6: the limit is 5"`) // a repeat
		b.want(409, http.MethodPost, "/wishlist", `{"itemId":"sku-1","quantity":99}`, "the quantity would be 100: the limit is 99")
		b.want(409, http.MethodPost, "/wishlist", `{"itemId":"sku-2","quantity":3,"max":2}`, "the quantity would be 3: the limit is 2")
		for _, wrong := range []string{"0", "-1", "100", "1.5", `"2"`} {
			b.want(422, http.MethodPost, "/wishlist", `{"itemId":"sku-1","max":`+wrong+`}`, `"pointer":"/max"`)
		}
		b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1","max":null}`, `"quantity":2`)

		var all sync.WaitGroup
		for n := range 8 {
			racer := *b
			racer.keys = 1000 * (n + 1)
			all.Go(func() { racer.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1"}`) })
		}
		all.Wait()
		b.want(200, http.MethodGet, "/wishlist/sku-1", "", `"quantity":10`)
	})
	p := newParts(t)
	p.profile = shop()
	p.profile.Name, p.profile.MaxQuantity = "favorites", 0
	b := serve(t, p).begin()
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"sku-1"}`)
	b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-1"}`)
}
