package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/suite"
)

// TestRepeatedAnswers checks on every route that a repeat gets the same bytes, from hot state and from the
// database.
func TestRepeatedAnswers(t *testing.T) {
	t.Parallel()
	inProfiles(t, repeatedAnswers)
}

func repeatedAnswers(t *testing.T, s *server) {
	b := s.begin()
	id, _, _ := strings.Cut(b.cookie, ".")
	seen := map[string]bool{}
	for i, c := range []struct {
		route, path, body string
		status            int
	}{
		{"POST /wishlist", "/wishlist", s.wish(s.item()), 201},
		{"POST /wishlist", "/wishlist", s.wish(s.item()), 200},
		{"POST /wishlist", "/wishlist", strings.Replace(s.wish(s.item()), tenant, property, 1), 409},
		{"PATCH /wishlist/{propertyId}", "/wishlist/" + s.item(), `{"note":"<ü>"}`, 200},
		{"DELETE /wishlist/{propertyId}", "/wishlist/" + s.item(), "", 204},
		{"DELETE /wishlist/{propertyId}", "/wishlist/" + s.item(), "", 204},
		{"POST /handoff/{tenantId}/{propertyId}", s.mintPath(), s.mintBody(), 201},
		{"POST /telemetry/page-view", "/telemetry/page-view", `{"items":[{"page":"home"},{"page":"list"}]}`, 202},
		{"POST /telemetry/funnel", "/telemetry/funnel", `{"items":[{"step":"search"}]}`, 202},
		{"POST /session/clear", "/session/clear", "", 204},
		{"POST /session/link", "/session/link", `{"token":"` + userToken(t, "u-1") + `"}`, 200},
	} {
		seen[c.route] = true
		method, _, _ := strings.Cut(c.route, " ")
		m := guest.Mutation{Session: guest.ID(id), Route: c.route, Key: fmt.Sprint("repeated-", i)}
		send := func() answer {
			old := *b // clear and link change the cookie
			return old.send(method, c.path, c.body, "Idempotency-Key: "+m.Key)
		}
		first := send()
		b.check(first, c.status)
		again := func(from, body string) {
			t.Helper()
			got := send()
			if got.status != c.status || got.body != body || got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s from %s: %d %v %s, want %s", c.route, from, got.status, got.header, got.body, body)
			}
			for _, name := range []string{"Content-Type", "Location", "Content-Length"} {
				want := first.header.Get(name)
				if name == "Content-Length" && want != "" {
					want = fmt.Sprint(len(body))
				}
				suite.Equal(t, c.route+" from "+from+": "+name, got.header.Get(name), want)
			}
		}
		again("the hot state", first.body)
		suite.Must(t, "DropAnswers", s.hot.DropAnswers(t.Context(), []string{m.CompositeKey()}))
		again("the database", first.body)
	}
	for _, route := range httpapi.MutatingRoutes() {
		suite.Equal(t, route, seen[route], true)
	}
}
