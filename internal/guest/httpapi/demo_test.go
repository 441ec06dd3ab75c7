package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/suite"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

type demo struct {
	*httpapi.Demo
	t    *testing.T
	base string
}

func (s *server) demo(t *testing.T) *demo {
	t.Helper()
	shown := &httpapi.Demo{
		Handler: &httpapi.Handler{Guests: s.guests, Catalogue: s.catalogue, Telemetry: s.telemetry, Handoffs: s.handoffs},
		Tenants: s.tenants, Feed: &httpapi.DemoFeed{}, HotState: "memory", Suspends: builtin.New().HasTenant,
	}
	return &demo{shown, t, webtest.Serve(t, web.Service{Serve: shown.Serve, Error: httpapi.WriteError, Route: httpapi.LabelDemo}, web.Options{}).URL}
}

func (d *demo) send(method, path, body string, headers ...string) (int, http.Header, string) {
	d.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := webtest.Request(d.t, d.base, method, path, content)
	webtest.SetHeaders(r, headers...)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// TestDemo checks that the pages load only their own files, and that the booking site consumes a handoff once.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	send := s.demo(t).send
	files := regexp.MustCompile(`(?:src|href)="((?:demo/)?[a-z]+[^":]*\.(?:js|css|svg))"`)
	for path, folder := range map[string]string{"/guest/demo": "/guest/", "/guest/demo/booking": "/guest/demo/"} {
		_, h, page := send(http.MethodGet, path, "")
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || h.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %v", path, h)
		}
		for _, inline := range []string{`<script>`, `<style`, ` style=`, ` onclick=`, `http://`, `https://`} {
			if strings.Contains(page, inline) {
				t.Errorf("%s has %s", path, inline)
			}
		}
		if !strings.Contains(page, "<noscript>") {
			t.Errorf("%s says nothing without JavaScript", path)
		}
		found := files.FindAllStringSubmatch(page, -1)
		if len(found) < 5 {
			t.Errorf("%s: %q", path, found)
		}
		for _, file := range found {
			if status, h, text := send(http.MethodGet, folder+file[1], ""); status != 200 || text == "" || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %v", file[1], status, h)
			}
		}
	}
	for path, status := range map[string]int{
		"/guest/demo/": 404, "/guest/demo/index.html": 404, "/guest/demo/booking.html": 404, "/guest/demo/../x": 404, "/guest/demo/arrivals": 405, "/guest/demo/hot-state": 405,
		"/guest/demo/suspension": 405, "/guest/demo/pictures": 404, "/guest/demo/pictures/": 404, "/guest/demo/pictures/x.svg": 404, "/guest/demo/pictures/../demo.js": 404,
		"/guest/demo/pictures/%2e%2e/demo.js": 404, "/guest/demo//demo.js": 404, "/guest/demo/pictures/vienna-0.svg": 200, "/guest/demo/live?x=1": 400,
	} {
		if got, _, text := send(http.MethodGet, path, ""); got != status {
			t.Errorf("%s: %d %s", path, got, text)
		}
	}

	b := s.begin()
	item := parse[found](t, b.want(200, http.MethodPost, "/search", `{}`).body).Items[0]
	minted := parse[struct{ HandoffID, Token string }](t, b.want(201, http.MethodPost, "/handoff/"+item.TenantID+"/"+item.PropertyID,
		`{"checkIn":"2037-03-01","checkOut":"2037-03-03","adults":2,"children":0,"currency":"EUR","locale":"de"}`).body)
	arrival := func(token, attempt string) string {
		return `{"handoffId":"` + minted.HandoffID + `","token":"` + token + `","attempt":"` + attempt + `"}`
	}
	for _, c := range []struct {
		token, attempt string
		status         int
		part           string
		headers        []string
	}{
		{minted.Token, "first", 403, "cross-site", []string{"Sec-Fetch-Site: cross-site"}},
		{minted.Token, "first", 415, "media-type", []string{"Content-Type: text/plain"}},
		{minted.Token + "x", "first", 403, "token-invalid", nil},
		{minted.Token, "", 422, "invalid", nil},
		{minted.Token, "first", 200, `"checkIn":"2037-03-01"`, nil},
		{minted.Token, "first", 200, `"checkIn":"2037-03-01"`, nil},
		{minted.Token, "second", 409, "handoff-consumed", nil},
	} {
		if status, _, text := send(http.MethodPost, "/guest/demo/arrivals", arrival(c.token, c.attempt), c.headers...); status != c.status || !strings.Contains(text, c.part) {
			t.Errorf("attempt %s: %d %s, want %d %s", c.attempt, status, text, c.status, c.part)
		}
	}
}

// TestDemoLive checks that guests see only their own session and events, with a short session ID.
func TestDemoLive(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	d, mine, other := s.demo(t), s.begin(), s.begin()
	id := func(b *browser) string { name, _, _ := strings.Cut(b.cookie, "."); return name }
	at := time.Now()
	for i, session := range []string{id(mine), id(other), id(mine), "nobody"} {
		d.Feed.Published(session, guest.Event{ID: guest.ID(fmt.Sprint("evt_", i)), Type: "wishlist.added.v1", At: at, Payload: json.RawMessage(`{"sessionId":"` + session + `","n":` + fmt.Sprint(i) + `}`)}, at)
	}
	live := func(cookie, query string) string {
		t.Helper()
		status, h, text := d.send(http.MethodGet, "/guest/demo/live"+query, "", "Cookie: gms="+cookie)
		if status != 200 || h.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%d %v %s", status, h, text)
		}
		for _, b := range []*browser{mine, other} {
			if strings.Contains(text, id(b)) {
				t.Errorf("%s has the whole ID of a session", text)
			}
		}
		return text
	}
	events := func(text string) (all []string) {
		t.Helper()
		for _, e := range parse[struct{ Events []struct{ ID string } }](t, text).Events {
			all = append(all, e.ID)
		}
		return all
	}
	for _, c := range []struct {
		cookie, query string
		want          []string
	}{
		{mine.cookie, "", []string{"evt_0", "evt_2"}}, {mine.cookie, "?after=evt_0", []string{"evt_2"}}, {mine.cookie, "?after=evt_1", []string{"evt_0", "evt_2"}},
		{other.cookie, "", []string{"evt_1"}}, {other.cookie + "x", "", nil}, {"", "", nil},
	} {
		if got := events(live(c.cookie, c.query)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.query, got, c.want)
		}
	}
	if text := live(mine.cookie, ""); !strings.Contains(text, id(mine)[len(id(mine))-6:]) || !strings.Contains(text, `"expiresAt":`) {
		t.Error(text)
	}
	if text := live("", ""); !strings.Contains(text, `"session":null`) {
		t.Error(text)
	}
	d.Feed.Forget(guest.ID(id(mine)))
	if got := events(live(mine.cookie, "")); got != nil {
		t.Errorf("after it was erased: %q", got)
	}
	for i := range 2000 {
		d.Feed.Published(id(mine), guest.Event{ID: guest.ID(fmt.Sprint("new_", i)), Payload: json.RawMessage(`"` + strings.Repeat("a", 3<<10) + `"`)}, at)
	}
	if text := live(mine.cookie, ""); len(events(text)) != 30 || len(text) > 8<<10 || !strings.Contains(text, "new_1999") {
		t.Errorf("%d events in %d bytes", len(events(text)), len(text))
	}
}

// TestDemoControls checks that guests can lose only their own hot state, and suspend tenants of the built-in
// catalogue for at most a minute.
func TestDemoControls(t *testing.T) {
	t.Parallel()
	p, now := newParts(t), atomic.Pointer[time.Time]{}
	start := time.Now()
	now.Store(&start)
	p.clock = func() time.Time { return *now.Load() }
	s := serve(t, p)
	d, mine, other := s.demo(t), s.begin(), s.begin()
	for _, b := range []*browser{mine, other} {
		b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de"}`)
		b.want(201, http.MethodPost, "/wishlist", wish(property))
	}
	do := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		if len(headers) == 0 || !strings.HasPrefix(headers[0], "Cookie:") {
			headers = append([]string{"Cookie: gms=" + mine.cookie}, headers...)
		}
		if status, _, text := d.send(method, "/guest/demo/"+path, body, headers...); status != want {
			t.Errorf("%s %s %s: %d %s, want %d", method, path, body, status, text, want)
		}
	}
	do(204, http.MethodDelete, "hot-state", "")
	mine.want(200, http.MethodGet, "/session", "", `"preferences":{}`)
	mine.want(200, http.MethodGet, "/wishlist", "", property)
	other.want(200, http.MethodGet, "/session", "", `"locale":"de"`)

	item := parse[found](t, mine.want(200, http.MethodPost, "/search", `{}`).body).Items[0]
	body, hotel := `{"tenantId":"`+item.TenantID+`"}`, "/hotels/"+item.PropertyID
	for _, c := range []struct {
		want    int
		body    string
		headers []string
	}{
		{401, body, []string{"Cookie: gms=x"}}, {403, body, []string{"Sec-Fetch-Site: cross-site"}}, {403, body, []string{"Origin: https://evil.example"}}, {415, body, []string{"Content-Type: text/plain"}},
		{400, `{`, nil}, {422, `{}`, nil}, {422, `null`, nil}, {422, `{"tenantId":"x"}`, nil}, {422, `{"tenantId":"` + property + `"}`, nil}, {422, `{"tenant":1}`, nil}, {413, `{"tenantId":"` + strings.Repeat("a", 17<<10) + `"}`, nil},
	} {
		do(c.want, http.MethodPut, "suspension", c.body, c.headers...)
		do(c.want, http.MethodDelete, "suspension", c.body, c.headers...)
	}
	do(401, http.MethodDelete, "hot-state", "", "Cookie: gms=x")
	do(403, http.MethodDelete, "hot-state", "", "Sec-Fetch-Site: same-site")
	do(400, http.MethodDelete, "hot-state", "{}")
	visible := func(status int) {
		t.Helper()
		if a := mine.send(http.MethodGet, hotel, ""); a.status != status {
			t.Errorf("hotel: %d, want %d", a.status, status)
		}
	}
	visible(200)
	do(200, http.MethodPut, "suspension", body)
	visible(404)
	mine.want(403, http.MethodPost, "/handoff/"+item.TenantID+"/"+item.PropertyID, stay, "tenant-suspended")
	do(409, http.MethodPut, "suspension", body)
	do(204, http.MethodDelete, "suspension", body)
	do(204, http.MethodDelete, "suspension", body)
	visible(200)

	moment := start.Add(time.Millisecond)
	now.Store(&moment)
	do(200, http.MethodPut, "suspension", body)
	again := serve(t, p).tenants // like a process that was killed and lost its suspensions
	later := moment.Add(tenants.BriefLife + time.Second)
	again.EndBriefs(t.Context())
	visible(404)
	now.Store(&later)
	again.EndBriefs(t.Context())
	visible(200)
	s.tenants.EndBriefs(t.Context())
	if left := s.tenants.Brief(); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

// TestDemoSuspensions checks that the demo does not end other suspensions, and starts only a few per minute.
func TestDemoSuspensions(t *testing.T) {
	t.Parallel()
	p, now := newParts(t), time.Now()
	p.clock = func() time.Time { return now }
	s := serve(t, p)
	suspended := func(want bool) {
		t.Helper()
		if found, err := s.tenants.Suspended(t.Context(), tenant); err != nil || len(found) > 0 != want {
			t.Errorf("suspended: %q %v, want %v", found, err, want)
		}
	}
	begin := func(want bool) {
		t.Helper()
		if _, err := s.tenants.SuspendBriefly(t.Context(), tenant); err == nil != want {
			t.Errorf("%v, want success %v", err, want)
		}
	}
	suite.Must(t, "Suspend", s.tenants.Suspend(t.Context(), tenant, true, "unpaid"))
	begin(false)
	if err := s.tenants.EndBrief(t.Context(), tenant); !errcode.Is(err, errcode.Conflict) {
		t.Error(err)
	}
	now = now.Add(time.Hour)
	s.tenants.EndBriefs(t.Context())
	suspended(true)
	suite.Must(t, "Suspend", s.tenants.Suspend(t.Context(), tenant, false, ""))
	for range 10 {
		now = now.Add(time.Millisecond)
		begin(true)
		suspended(true)
		suite.Must(t, "EndBrief", s.tenants.EndBrief(t.Context(), tenant))
		suspended(false)
	}
	now = now.Add(time.Millisecond)
	begin(false)
	suspended(false)

	// An operator's later suspension of the tenant wins.
	now = now.Add(tenants.BriefLife)
	begin(true)
	now = now.Add(time.Second)
	suite.Must(t, "Suspend", s.tenants.Suspend(t.Context(), tenant, true, "unpaid"))
	now = now.Add(tenants.BriefLife)
	s.tenants.EndBriefs(t.Context())
	suspended(true)
}

// TestDemoRoutesAreLimited checks that each demo route except files first takes a token, with and without a
// session.
func TestDemoRoutesAreLimited(t *testing.T) {
	t.Parallel()
	p, walked := newParts(t), 0
	p.limits = guest.Limits{}
	for _, class := range []guest.Class{guest.ClassSession, guest.ClassMint} {
		p.limits[class] = guest.Limit{Events: 1, Per: time.Hour, Burst: 1} // an address may send ten times as many
	}
	for _, r := range httpapi.DemoRoutes() {
		if r.Method == http.MethodGet && r.Label != "/guest/demo/live" {
			continue
		}
		walked++
		s := serve(t, p)
		d, b := s.demo(t), (&browser{server: s})
		b.want(200, http.MethodPost, "/search", `{}`)
		status, h := 0, http.Header{}
		for range 12 {
			if status, h, _ = d.send(r.Method, r.Label, `{}`, "Cookie: gms="+b.cookie); status == http.StatusTooManyRequests {
				break
			}
		}
		if status != http.StatusTooManyRequests || h.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %v", r.Method, r.Label, status, h)
		}
	}
	if walked != 5 {
		t.Errorf("%d routes", walked)
	}
}

func TestDemoLimits(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	p.limits = guest.Limits{guest.ClassSession: {Events: 3, Per: time.Hour, Burst: 3}}
	s := serve(t, p)
	d, b := s.demo(t), (&browser{server: s})
	b.want(200, http.MethodPost, "/search", `{}`)
	for i, want := range []int{200, 204, 422, 429, 429} {
		method, path, body := http.MethodGet, "live", ""
		switch i {
		case 1, 4:
			method, path = http.MethodDelete, "hot-state"
		case 2:
			method, path, body = http.MethodPut, "suspension", "{}"
		}
		if status, _, text := d.send(method, "/guest/demo/"+path, body, "Cookie: gms="+b.cookie); status != want {
			t.Errorf("%d: %d %s, want %d", i, status, text, want)
		}
	}
}
