package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
)

// observed returns the payloads of a type's events, without the type's prefix, after the database stored them.
func (s *server) observed(kind string) (payloads []string) {
	s.t.Helper()
	if err := s.telemetry.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range s.waiting() {
		if e.Topic != s.profile.EventType(kind) {
			continue
		}
		if e.Class != guest.Operational {
			s.t.Errorf("%s is %s", kind, e.Class)
		}
		payloads = append(payloads, string(e.Payload))
	}
	return payloads
}

// TestSessionsArePublished checks that every new session is published once. A change without a session is refused
// with a new session's cookie, so that a retry succeeds; a read is not refused.
func TestSessionsArePublished(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	session := func(b *browser) string {
		id, _, _ := strings.Cut(b.cookie, ".")
		return id
	}
	var want []string
	began := func(b *browser) { want = append(want, session(b)) }
	b := &browser{server: s}
	b.check(b.send(http.MethodPost, "/session", "", "X-Campaign-Source: mail"), 201)
	began(b)
	b.want(200, http.MethodPost, "/session", "")
	b.want(200, http.MethodPost, "/search", `{}`)
	b.want(204, http.MethodPost, "/session/clear", "")
	began(b)

	for _, path := range []string{"/search", "/search/map"} {
		b = &browser{server: s}
		b.want(422, http.MethodPost, path, `{"adults":1000}`)
		b.want(200, http.MethodPost, path, `{}`)
		began(b)
	}

	b = &browser{server: s}
	b.want(401, http.MethodGet, "/session", "", `"session-required"`)
	b.want(200, http.MethodGet, "/wishlist", "", `{"items":[],"nextCursor":null}`)
	if b.cookie != "" {
		t.Error("a read has begun a session")
	}
	b.check(b.send(http.MethodPost, "/wishlist", wish(property), "Origin: https://evil.example"), 403)
	if b.cookie != "" {
		t.Error("another site has begun a session")
	}
	b.want(401, http.MethodPost, "/wishlist", wish(property), `"session-required"`)
	began(b)
	b.want(201, http.MethodPost, "/wishlist", wish(property))
	b.want(200, http.MethodGet, "/wishlist", "", property)

	got := s.observed("session.started.v1")
	if len(got) != len(want) || !strings.Contains(got[0], `"campaign":{"source":"mail"}}`) {
		t.Fatalf("%d sessions: %s, want %s", len(got), got, want)
	}
	for i, payload := range got {
		e := parse[struct{ SessionID, CreatedAt string }](t, payload)
		if e.SessionID != want[i] || e.CreatedAt == "" {
			t.Errorf("session %d: %s, want %s", i, payload, want[i])
		}
	}

	// If a client may not start sessions, a change starts none either.
	limited := s.at(func(p *parts) {
		p.limits = guest.Limits{guest.ClassBootstrap: {Events: 1, Per: time.Hour, Burst: 1}}
	})
	for i := range 2 {
		b = &browser{server: limited}
		b.want(401, http.MethodPost, "/wishlist", wish(property), `"session-required"`)
		if (b.cookie != "") != (i == 0) {
			t.Errorf("request %d has the cookie %q", i, b.cookie)
		}
	}
}

func TestBotsBeginNoSession(t *testing.T) {
	t.Parallel()
	b := &browser{server: newBotServer(t, 0.9)}
	b.want(403, http.MethodPost, "/session", "", `"hard-block"`)
	b.want(401, http.MethodPost, "/wishlist", wish(property), `"session-required"`)
	if b.cookie != "" || len(b.observed("session.started.v1")) > 0 {
		t.Errorf("a session has begun: %q", b.cookie)
	}
}

// TestSearchesArePublished also checks that events contain no free text.
func TestSearchesArePublished(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	first := parse[found](t, b.want(200, http.MethodPost, "/search", `{"text":"  Anna@Example.org ","page":2}`).body)
	b.want(200, http.MethodPost, "/search", `{"region":"Vienna"}`)
	b.want(200, http.MethodGet, "/search/"+first.SearchID+"?page=3", "")
	b.want(200, http.MethodPost, "/search/map", `{"bounds":{"south":1,"west":2,"north":3,"east":4}}`)
	b.want(422, http.MethodPost, "/search", `{"adults":1000}`)
	(&browser{server: s}).want(200, http.MethodPost, "/search", `{}`)
	session, _, _ := strings.Cut(b.cookie, ".")
	searches := s.observed("search.executed.v1")
	if len(searches) != 5 || strings.Contains(strings.ToLower(strings.Join(searches, "")), "anna") {
		t.Fatalf("%d searches: %s", len(searches), searches)
	}
	for i, want := range []string{
		`{"sessionId":"` + session + `","searchId":"` + first.SearchID + `","kind":"list","query":{"adults":2,"children":0,"rooms":1,"sort":"recommended","page":2,`,
		`"region":"vienna"`, `"page":3,`,
		`{"sessionId":"` + session + `","kind":"map","query":{"adults":2,"children":0,"rooms":1,"bounds":{"south":1,`, `"cache":"MISS"}`,
	} {
		if !strings.Contains(searches[i], want) || !strings.Contains(searches[i], `"hasText":`+map[bool]string{true: "true", false: "false"}[i == 0 || i == 2]) {
			t.Errorf("search %d: %s, want %s", i, searches[i], want)
		}
	}

	view := "/hotels/" + property + "?locale=de&currency=USD"
	for range 2 {
		if a := b.send(http.MethodGet, view, ""); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	b.send(http.MethodGet, "/hotels/"+tenant, "")
	(&browser{server: s}).send(http.MethodGet, view, "")
	want := `{"sessionId":"` + session + `","tenantId":"` + tenant + `","propertyId":"` + property + `","locale":"de","currency":"USD","cache":"`
	if views := s.observed("detail.viewed.v1"); len(views) != 2 || views[0] != want+`MISS"}` || views[1] != want+`HIT"}` {
		t.Errorf("views %s, want %s", views, want)
	}
}

// TestSearchesAreSampled also checks that an erased session's searches are not published.
func TestSearchesAreSampled(t *testing.T) {
	t.Parallel()
	recorded := map[string]int{}
	s := newServer(t).at(func(p *parts) {
		p.samples = telemetry.SampleRates{Searches: 4}
		p.recorded = func(kind, result string, n int) { recorded[kind+" "+result] += n }
	})
	for range 30 {
		b := s.begin()
		b.want(200, http.MethodPost, "/search", `{}`)
		b.want(200, http.MethodPost, "/search", `{}`)
	}
	bySession := map[string]int{}
	for _, payload := range s.observed("search.executed.v1") {
		bySession[parse[struct{ SessionID string }](t, payload).SessionID]++
	}
	for session, n := range bySession {
		if n != 2 {
			t.Errorf("%d searches of %s", n, session)
		}
	}
	if n := 2 * len(bySession); n == 0 || n == 60 || recorded["search published"] != n || recorded["search sampled-out"] != 60-n {
		t.Errorf("%d are published of 60; counted %v", n, recorded)
	}
	s = s.at(func(p *parts) { p.samples = telemetry.SampleRates{} })
	b := s.begin()
	b.want(200, http.MethodPost, "/search", `{}`)
	session, _, _ := strings.Cut(b.cookie, ".")
	if _, err := s.guests.Erase(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	if all := s.observed("search.executed.v1"); strings.Contains(strings.Join(all, ""), session) {
		t.Errorf("of an erased session: %s", all)
	}
}

func TestCampaign(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	r := newReceiver(t, s)
	campaignOf := func(body string, headers ...string) string {
		t.Helper()
		a := b.send(http.MethodPost, "/handoff/"+tenant+"/"+property, body, headers...)
		m := parse[minted](t, a.body)
		text := r.want(200, "/internal/handoff/"+m.HandoffID+"/verify", `{"token":"`+m.Token+`"}`, "")
		return string(parse[struct{ Campaign json.RawMessage }](t, text).Campaign)
	}
	for _, c := range []struct {
		what, body, want string
		headers          []string
	}{
		{"none", stay, "", nil},
		{"with the request", stay, `{"name":"autumn \"26","medium":"cpc","source":"search"}`, []string{"X-Campaign-Source: search", "X-Campaign-Medium: cpc", `X-Campaign-Name: autumn "26`}},
		{"kept", stay, `{"name":"autumn \"26","medium":"cpc","source":"search"}`, nil},
		{"of the body", strings.Replace(stay, `"adults"`, `"campaign":{"a":1},"adults"`, 1), `{"a":1}`, nil},
		{"the last one, cut", stay, `{"source":"` + strings.Repeat("x", 100) + `"}`, []string{"X-Campaign-Source: " + strings.Repeat("x", 200)}},
		{"too large", stay, `{"source":"` + strings.Repeat("x", 100) + `"}`, []string{"X-Campaign-Source: " + strings.Repeat("<", 200), "X-Campaign-Name: " + strings.Repeat("<", 200)}},
	} {
		if got := campaignOf(c.body, c.headers...); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for _, send := range []func(){
		func() { b.check(b.send(http.MethodPost, "/search", `{}`, "X-Campaign-Source: one"), 200) },
		func() { b.check(b.send(http.MethodPost, "/session", "", "X-Campaign-Source: two"), 200) },
	} {
		send()
	}
	if got := campaignOf(stay); got != `{"source":"two"}` {
		t.Errorf("after other requests: %s", got)
	}
	fresh := &browser{server: s}
	fresh.check(fresh.send(http.MethodPost, "/session", "", "X-Campaign-Source: three"), 201)
	b = fresh
	if got := campaignOf(stay); got != `{"source":"three"}` {
		t.Errorf("of a new session: %s", got)
	}
}
