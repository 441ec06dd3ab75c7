package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/retention"
	"holdfast/internal/suite"
)

// grant is a request whose answer lets the client do something, and the events that end this permission.
type grant struct {
	path, body string
	ends       map[string]end
}

// end is an event after which a repeated request must be refused.
type end struct {
	life   time.Duration // handoff lifetime; 0: 10 minutes
	shop   bool          // only in profiles with a payload
	happen func(s *server, b *browser, granted answer)
	status int
	code   string
}

// TestRepeatedGrants checks for every route with stored answers that a repeated request does not hand out an ended
// grant, neither from hot state nor from the database.
func TestRepeatedGrants(t *testing.T) {
	t.Parallel()
	// The answers to these routes grant nothing: they describe the data of the session that the cookie proves.
	nothing := []string{
		"POST /wishlist", "PATCH /wishlist/{propertyId}", "DELETE /wishlist/{propertyId}", "POST /telemetry/page-view", "POST /telemetry/funnel",
		"POST /session/clear", // begins another session each time
	}
	inSites(t, func(t *testing.T, s *server) {
		s = s.at(func(p *parts) { p.users = userKeys(t, userSecret) })
		grants := map[string]grant{
			"POST /handoff/{tenantId}/{propertyId}": {s.mintPath(), s.mintBody(), handoffEnds},
			"POST /session/link":                    {"/session/link", `{"token":"` + userToken(t, "u-1") + `"}`, signInEnds},
		}
		suite.Equal(t, "routes", slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(grants)), nothing...))), slices.Sorted(slices.Values(httpapi.MutatingRoutes())))
		for route, g := range grants {
			for name, e := range g.ends {
				if e.shop && s.profile.IsHotel() {
					continue
				}
				t.Run(name, func(t *testing.T) { repeatAfter(t, s.at(func(p *parts) { p.life = e.life }), route, g, e) })
			}
		}
	})
}

func repeatAfter(t *testing.T, s *server, route string, g grant, e end) {
	s.t = t
	b := s.begin()
	id, _, _ := strings.Cut(b.cookie, ".")
	m := guest.Mutation{Session: guest.ID(id), Route: route, Key: "grant"}
	old := *b
	send := func() answer {
		one := old // a sign-in changes the cookie
		return one.send(http.MethodPost, g.path, g.body, "Idempotency-Key: "+m.Key)
	}
	first := b.send(http.MethodPost, g.path, g.body, "Idempotency-Key: "+m.Key)
	b.check(first, first.status)
	if first.status != 200 && first.status != 201 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	e.happen(s, b, first)
	for _, from := range []string{"the hot state", "the database"} {
		again := send()
		b.check(again, e.status, `"code":"`+e.code+`"`)
		if strings.Contains(again.body, `"token"`) || len(again.header.Values("Set-Cookie")) > 0 {
			t.Errorf("from %s: %v %s", from, again.header, again.body)
		}
		suite.Must(t, "DropAnswers", s.hot.DropAnswers(t.Context(), []string{m.CompositeKey()}))
	}
}

func mintedOf(s *server, a answer) (m minted) {
	s.t.Helper()
	suite.Must(s.t, "read the answer", json.Unmarshal([]byte(a.body), &m))
	return m
}

var handoffEnds = map[string]end{
	"consumed": {status: 409, code: "handoff-consumed", happen: func(s *server, _ *browser, a answer) {
		m := mintedOf(s, a)
		newReceiver(s.t, s).want(200, "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`, "")
	}},
	"voided": {status: 410, code: "handoff-voided", shop: true, happen: func(s *server, b *browser, _ answer) { b.mint() }},
	"expired": {status: 410, code: "handoff-expired", life: time.Millisecond, happen: func(s *server, _ *browser, a answer) {
		for m := mintedOf(s, a); ; {
			h, state, err := s.store.Handoff(s.t.Context(), guest.ID(m.HandoffID))
			suite.Must(s.t, "Handoff", err)
			if !state.Now.Before(h.Expires) {
				return
			}
			clock.Sleep(s.t.Context(), h.Expires.Sub(state.Now))
		}
	}},
	"swept": {status: 410, code: "handoff-expired", happen: func(s *server, _ *browser, _ answer) {
		_, err := s.store.Drop(s.t.Context(), retention.JobHandoffs, clock.System().Add(time.Hour), 1000)
		suite.Must(s.t, "Drop", err)
	}},
	"suspended": {status: 403, code: "tenant-suspended", happen: func(s *server, _ *browser, _ answer) {
		s.suspend(true)
		s.t.Cleanup(func() { s.suspend(false) })
	}},
	"key revoked": {status: 410, code: "handoff-voided", happen: func(s *server, _ *browser, _ answer) {
		keys, err := handoffs.NewKeys(s.store, strings.Repeat("h", 32), nil, "holdfast")
		suite.Must(s.t, "NewKeys", err)
		_, err = keys.RevokeAll(s.t.Context())
		suite.Must(s.t, "RevokeAll", err)
	}},
}

// suspend suspends or reinstates the tenant, also while the test is cleaned up.
func (s *server) suspend(suspended bool) {
	s.t.Helper()
	suite.Must(s.t, "Suspend", s.tenants.Suspend(context.Background(), tenant, suspended, "test"))
}

var signInEnds = map[string]end{
	"signed out": {status: 403, code: "not-signed-in", happen: func(_ *server, b *browser, _ answer) {
		b.want(204, http.MethodDelete, "/session/link", "")
	}},
	"ended from another browser": {status: 403, code: "not-signed-in", happen: func(s *server, _ *browser, _ answer) {
		other := s.begin()
		other.signIn("u-1")
		other.want(204, http.MethodDelete, "/user/sessions", "")
	}},
	"erased": {status: 403, code: "not-signed-in", happen: func(s *server, b *browser, _ answer) {
		list, _, err := s.store.UserList(s.t.Context(), "u-1")
		suite.Must(s.t, "UserList", err)
		_, err = s.guests.Erase(s.t.Context(), string(list))
		suite.Must(s.t, fmt.Sprint("Erase ", list), err)
	}},
}
