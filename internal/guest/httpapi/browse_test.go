package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
)

type found struct {
	SearchID string
	Query    catalogue.SearchQuery
	catalogue.Results
	Page     int
	NextPage *int
}

func parse[T any](t testing.TB, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// TestSearch also checks that only its guest can continue a search.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	a := b.want(200, http.MethodPost, "/search", `{"country":"at","region":"Vienna","pageSize":15,"sort":"price","checkIn":"2037-03-01","checkOut":"2037-03-03"}`, `"country":"AT"`)
	if a.header.Get("X-Cache") != "MISS" || !regexp.MustCompile(`^holdfast; fwd=uri-miss; stored; ttl=\d+$`).MatchString(a.header.Get("Cache-Status")) {
		t.Errorf("the first: %v", a.header)
	}
	first := parse[found](t, a.body)
	if len(first.Items) == 0 || first.Total < len(first.Items) || first.Page != 1 || (first.NextPage != nil) != (first.Total > 15) {
		t.Fatalf("%+v", first)
	}
	last := 0
	for _, i := range first.Items {
		var nightly, total int
		if _, err := fmt.Sscan(i.CheapestNightlyMinor+" "+i.TotalForStayMinor, &nightly, &total); err != nil || nightly < last || total < 2*nightly || i.Country != "AT" || i.Region != "vienna" {
			t.Errorf("%+v after %d: %v", i, last, err)
		}
		last = nightly
	}
	again := b.want(200, http.MethodPost, "/search", `{"country":"AT","region":"vienna","rooms":1,"adults":2,"pageSize":15,"sort":"price","checkIn":"2037-03-01","checkOut":"2037-03-03"}`)
	if again.header.Get("X-Cache") != "HIT" || !strings.HasPrefix(again.header.Get("Cache-Status"), "holdfast; hit; ttl=") {
		t.Errorf("the same in other words: %v", again.header)
	}
	second := parse[found](t, again.body)
	if second.SearchID == first.SearchID {
		t.Error("two searches have one ID")
	}
	page := b.want(200, http.MethodGet, "/search/"+second.SearchID+"?page=2", "", second.SearchID)
	if got := parse[found](t, page.body); got.Page != 2 || got.Total != first.Total || len(got.Items) != max(0, first.Total-15) {
		t.Errorf("page 2: %+v", got)
	}
	b.want(200, http.MethodGet, "/search/"+first.SearchID, "")
	history := b.want(200, http.MethodGet, "/session/history", "", second.SearchID)
	if strings.Count(history.body, "searchId") != 1 {
		t.Errorf("the history has a query twice: %s", history.body)
	}
	gone := "search-session-expired"
	s.begin().want(410, http.MethodGet, "/search/"+second.SearchID, "", gone) // another session's search
	b.want(410, http.MethodGet, "/search/"+string(guest.NewID(guest.SearchPrefix, time.Now())), "", gone)
	b.want(410, http.MethodGet, "/search/srs_x", "", gone)
	b.want(404, http.MethodGet, "/search/x", "")
	b.want(400, http.MethodGet, "/search/"+second.SearchID+"?page=x", "")
	b.want(400, http.MethodGet, "/search/"+second.SearchID+"?page=", "")
	b.want(400, http.MethodGet, "/search/"+second.SearchID+"?page=0", "")
	b.want(422, http.MethodGet, "/search/"+second.SearchID+"?page=1001", "")
	b.want(204, http.MethodPost, "/session/clear", "")
	b.want(410, http.MethodGet, "/search/"+second.SearchID, "", gone)
	b.want(200, http.MethodGet, "/session/history", "", `"items":[]`)
}

func TestSearchBegins(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := &browser{server: s}
	b.want(200, http.MethodPost, "/search", `{}`, `"locale":"en"`, `"currency":"EUR"`)
	b.want(200, http.MethodGet, "/session/history", "", "srs_")
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT","currency":"CHF"}`)
	b.want(200, http.MethodPost, "/search", `{}`, `"locale":"de-AT"`, `"currency":"CHF"`)
	ignored := &browser{server: s}
	ignored.check(ignored.send(http.MethodPost, "/search", `{}`, "X-Currency: euro"), 200, `"currency":"EUR"`)
	a := b.send(http.MethodPost, "/search", `{"currency":"USD"}`, "Accept-Language: fr", "X-Currency: GBP")
	b.check(a, 200, `"locale":"de-AT"`, `"currency":"USD"`)
	pins := parse[catalogue.Pins](t, b.want(200, http.MethodPost, "/search/map", `{"bounds":{"south":48,"west":16,"north":49,"east":17}}`).body)
	if len(pins.Items) == 0 || pins.Total != len(pins.Items) || pins.Items[0].Currency != "CHF" {
		t.Errorf("pins %+v", pins)
	}
	for _, p := range pins.Items {
		if p.Latitude < 48 || p.Latitude > 49 || p.Longitude < 16 || p.Longitude > 17 {
			t.Errorf("out of bounds: %+v", p)
		}
	}
	for _, body := range []string{
		`{"country":"Austria"}`, `{"region":"a b"}`, `{"adults":31}`, `{"adults":-1}`, `{"rooms":11}`, `{"children":-1}`, `{"page":1001}`, `{"pageSize":101}`,
		`{"sort":"best"}`, `{"checkIn":"2037-01-01"}`, `{"checkIn":"2037-01-02","checkOut":"2037-01-02"}`, `{"checkIn":"2037-01-32","checkOut":"2027-02-02"}`,
		`{"minStars":6}`, `{"amenities":["A"]}`, `{"maxNightlyMinor":"1.5"}`, `{"maxNightlyMinor":1}`, `{"locale":"-"}`, `{"currency":"eur"}`,
		`{"text":"` + strings.Repeat("a", 101) + `"}`, `{"other":1}`, `[]`,
	} {
		b.want(422, http.MethodPost, "/search", body)
	}
	b.want(422, http.MethodPost, "/search/map", `{"bounds":{"south":50,"west":0,"north":49,"east":1}}`)
}

func (s *server) checkTag(path, tag string) {
	s.t.Helper()
	for match, status := range map[string]int{tag: 304, `"x", W/` + tag: 304, "*": 304, `"x"`: 200} {
		a := (&browser{server: s}).send(http.MethodGet, path, "", "If-None-Match: "+match)
		if a.status != status || status == 304 && (a.body != "" || a.header.Get("ETag") != tag || !strings.HasPrefix(a.header.Get("Cache-Control"), "public")) {
			s.t.Errorf("%s with %s: %d %v %s", path, match, a.status, a.header, a.body)
		}
	}
}

// TestPublic checks that answers for all guests need no session, contain an entity tag, and reveal nothing about
// the guest.
func TestPublic(t *testing.T) {
	t.Parallel()
	s := newServer(t).at(func(p *parts) {
		p.limits = guest.DefaultRates().Limits()
		p.cookies = guest.NewCookies(strings.Repeat("n", 32), []string{strings.Repeat("s", 32)})
	})
	b := newServer(t).begin() // signed with the old secret, so that an answer replaces the cookie
	b.server = s
	item := parse[found](t, b.want(200, http.MethodPost, "/search", `{"region":"prague"}`).body).Items[0]
	old := newServer(t).begin()
	for path, kind := range map[string]string{
		"/hotels/" + item.PropertyID: item.Name, "/hotels/" + strings.ToUpper(item.PropertyID) + "?locale=de&currency=USD": `"locale":"de"`,
		"/hotels/" + item.PropertyID + "/availability?from=2037-03-01&to=2037-03-02": `"currency":"CZK"`,
		"/facets/cz/prague":                  `"total":20`,
		"/brands/" + item.TenantID + "/peek": item.TenantID,
	} {
		for _, cookie := range []string{"", "Cookie: gms=" + old.cookie, "Cookie: gms=" + old.cookie} {
			a := (&browser{server: s}).send(http.MethodGet, path, "", append([]string{}, cookie)[:min(1, len(cookie))]...)
			if a.status != 200 || !strings.Contains(a.body, kind) {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
			for _, private := range []string{"Set-Cookie", "RateLimit", "RateLimit-Policy"} {
				if a.header.Get(private) != "" {
					t.Errorf("%s: %s: %s", path, private, a.header.Get(private))
				}
			}
			if c := a.header.Get("Cache-Control"); !regexp.MustCompile(`^public, max-age=\d+, stale-if-error=600$`).MatchString(c) {
				t.Errorf("%s: Cache-Control: %s", path, c)
			}
			if a.header.Get("Vary") != "Accept-Language, X-Currency, Accept-Encoding" || a.header.Get("X-Cache") == "" {
				t.Errorf("%s: %v", path, a.header)
			}
			s.checkTag(path, a.header.Get("ETag"))
		}
	}
	for path, status := range map[string]int{
		"/hotels/" + tenant: 404, "/hotels/x": 404, "/hotels/" + tenant + "/availability?from=2037-03-01&to=2037-03-02": 404,
		"/hotels/" + item.PropertyID + "/availability": 422, "/hotels/" + item.PropertyID + "/availability?from=2037-03-01&to=2037-03-01": 422,
		"/hotels/" + item.PropertyID + "/availability?from=2037-03-01&to=2037-03-02&adults=x": 400,
		"/hotels/" + item.PropertyID + "?other=1":                                             400, "/hotels/" + item.PropertyID + "?locale=de&locale=en": 400, "/hotels/" + item.PropertyID + "?currency=euro": 422,
		"/facets/at/nowhere": 404, "/facets/x/y": 404, "/brands/" + property + "/peek": 404, "/brands/x/peek": 404, "/hotels": 404, "/brands/x": 404,
	} {
		(&browser{server: s}).want(status, http.MethodGet, path, "")
	}
	(&browser{server: s}).want(405, http.MethodPost, "/hotels/"+item.PropertyID, `{}`)
}

// TestLanguages checks that the answer depends on the headers in Vary, and not on the guest's preferences.
func TestLanguages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	id := parse[found](t, b.want(200, http.MethodPost, "/search", `{}`).body).Items[0].PropertyID
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"fr","currency":"CHF"}`)
	for language, want := range map[string]string{"": "en", "de-AT,de;q=0.9": "de", "x;q=0.1, fr;q=0.8, de;q=0.3": "fr", "*": "en", "ja": "en", ";;q=,": "en"} {
		a := b.send(http.MethodGet, "/hotels/"+id, "", "Accept-Language: "+language)
		if h := parse[catalogue.Hotel](t, a.body); h.Locale != want || h.Currency != "EUR" {
			t.Errorf("%q: %s, %s", language, h.Locale, h.Currency)
		}
	}
	if h := parse[catalogue.Hotel](t, b.send(http.MethodGet, "/hotels/"+id, "", "X-Currency: GBP").body); h.Currency != "GBP" {
		t.Errorf("currency %s", h.Currency)
	}
}

func TestSuspendedTenant(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	search := func() found {
		return parse[found](t, b.want(200, http.MethodPost, "/search", `{"region":"vienna"}`).body)
	}
	before := search()
	item := before.Items[0]
	paths := []string{"/hotels/" + item.PropertyID, "/hotels/" + item.PropertyID + "/availability?from=2037-03-01&to=2037-03-02", "/brands/" + item.TenantID + "/peek"}
	status := func() (all [3]int) {
		for i, path := range paths {
			all[i] = (&browser{server: s}).send(http.MethodGet, path, "").status
		}
		return all
	}
	if got := status(); got != [3]int{200, 200, 200} {
		t.Fatal(got)
	}
	if err := s.tenants.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	suspend := func(suspended bool, at time.Duration) {
		t.Helper()
		if err := s.hot.SetSuspension(t.Context(), tenants.Suspension{Tenant: item.TenantID, Suspended: suspended, At: time.Now().Add(at)}); err != nil {
			t.Fatal(err)
		}
	}
	suspend(true, 0)
	if got := status(); got != [3]int{404, 404, 404} {
		t.Error(got)
	}
	after := search()
	if len(after.Items) >= len(before.Items) {
		t.Errorf("%d before, %d after", len(before.Items), len(after.Items))
	}
	for _, i := range after.Items {
		if i.TenantID == item.TenantID {
			t.Errorf("found %+v", i)
		}
	}
	if pins := b.want(200, http.MethodPost, "/search/map", `{"region":"vienna"}`); strings.Contains(pins.body, item.TenantID) {
		t.Error("on the map")
	}
	suspend(false, time.Second)
	if got := status(); got != [3]int{200, 200, 200} {
		t.Error(got)
	}
}

// TestLateSuspension checks that an event older than the reinstatement hides nothing.
func TestLateSuspension(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	item := parse[found](t, s.begin().want(200, http.MethodPost, "/search", `{"region":"vienna"}`).body).Items[0]
	if err := s.tenants.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		kind, at string
		result   inbox.Result
		status   int
	}{
		{tenants.TypeSuspended, "10:00", inbox.Applied, 404},
		{tenants.TypeReinstated, "12:00", inbox.Applied, 200},
		{tenants.TypeSuspended, "11:30", inbox.Stale, 200},
		{tenants.TypeSuspended, "12:30", inbox.Applied, 404},
	} {
		at, err := time.Parse(time.RFC3339, "2026-11-01T"+step.at+":00Z")
		if err != nil {
			t.Fatal(err)
		}
		e := inbox.Event{Source: "/tenants", ID: strconv.Itoa(i), Type: step.kind, Time: at, Body: []byte(`{"tenantId":"` + item.TenantID + `"}`)}
		result, err := s.tenants.Receive(t.Context(), e)
		if got := (&browser{server: s}).send(http.MethodGet, "/hotels/"+item.PropertyID, "").status; err != nil || result != step.result || got != step.status {
			t.Errorf("%s of %s: %s, %v, and %d; want %s and %d", step.kind, step.at, result, err, got, step.result, step.status)
		}
	}
}

type flaky struct {
	catalogue.Source
	fails atomic.Bool
	calls atomic.Int64
}

func (f *flaky) Hotel(ctx context.Context, property, locale, currency string) (catalogue.Hotel, error) {
	f.calls.Add(1)
	if f.fails.Load() {
		return catalogue.Hotel{}, errors.New("secret of the upstream")
	}
	return f.Source.Hotel(ctx, property, locale, currency)
}

func (f *flaky) Search(ctx context.Context, q catalogue.SearchQuery) (catalogue.Results, error) {
	if f.fails.Load() {
		return catalogue.Results{}, errors.New("secret of the upstream")
	}
	return f.Source.Search(ctx, q)
}

func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	f := &flaky{Source: builtin.New()}
	f.fails.Store(true)
	s := newServer(t).at(func(p *parts) { p.source = f })
	for range 3 {
		a := (&browser{server: s}).want(503, http.MethodGet, "/hotels/"+property, "", `"code":"unavailable"`, `"retriable":true`)
		if strings.Contains(a.body, "secret") || a.header.Get("Retry-After") == "" || a.header.Get("X-Cache") != "" {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	if n := f.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
	b := &browser{server: s}
	b.want(503, http.MethodPost, "/search", `{}`)
	if b.cookie != "" {
		t.Error("a failed search has begun a session")
	}
}

// TestNoSharing checks that answers from a shared cache contain nothing about another guest.
func TestNoSharing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const guests = 8
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for n := range guests {
		all.Go(func() {
			b := &browser{server: s}
			a := b.send(http.MethodPost, "/search", `{"region":"berlin"}`)
			f := parse[found](t, a.body)
			session, _, _ := strings.Cut(b.cookie, ".")
			mu.Lock()
			defer mu.Unlock()
			if a.status != 200 || session == "" || ids[session] || ids[f.SearchID] {
				t.Errorf("guest %d: %d %s, search %s", n, a.status, session, f.SearchID)
			}
			if a.header.Get("Cache-Control") != "private, no-store" {
				t.Errorf("Cache-Control: %s", a.header.Get("Cache-Control"))
			}
			ids[session], ids[f.SearchID] = true, true
		})
	}
	all.Wait()
	for _, path := range []string{"/facets/de/berlin"} {
		a := (&browser{server: s}).send(http.MethodGet, path, "")
		for id := range ids {
			if strings.Contains(fmt.Sprint(a.header)+a.body, id) {
				t.Errorf("%s has %s", path, id)
			}
		}
	}
}
