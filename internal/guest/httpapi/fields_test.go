package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

type listeners struct {
	*browser
	receiver *receiver
	events   string // base URL
}

func newListeners(t testing.TB) *listeners {
	t.Helper()
	s := newServer(t)
	l := &listeners{browser: s.begin(), receiver: newReceiver(t, s)}
	h := &httpapi.EventReceiver{
		Tokens: l.receiver.tokens, Clock: clock.System, Receive: s.tenants.Receive,
		Parse: func(headers map[string]string, body []byte) (e inbox.Event, err error) {
			if headers == nil {
				return e, json.Unmarshal(body, &e)
			}
			e = inbox.Event{Source: headers["ce-source"], ID: headers["ce-id"], Type: headers["ce-type"], Body: body}
			e.Time, err = time.Parse(time.RFC3339, headers["ce-time"])
			return e, err
		},
	}
	l.events = webtest.Serve(t, web.Service{Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.LabelEvents}, web.Options{}).URL
	return l
}

func (l *listeners) service(base, token, path, body string, headers ...string) answer {
	l.t.Helper()
	r := webtest.Request(l.t, base, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", "a")
	webtest.SetHeaders(r, headers...)
	resp, err := described(l.t, l.profile).Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (l *listeners) push(body string, headers ...string) answer {
	l.t.Helper()
	claims, err := httpapi.EventClaims("tenants")
	if err != nil {
		l.t.Fatal(err)
	}
	token, err := l.receiver.tokens.Sign(claims, clock.System(), time.Hour)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.service(l.events, token, "/internal/events", body, headers...)
}

func (l *listeners) site(path, body string) answer {
	l.t.Helper()
	return l.service(l.receiver.base, l.receiver.token("booking", ""), path, body)
}

// twice sends two different requests with the same idempotency key, and returns the second answer.
func (l *listeners) twice(method, first, second string) answer {
	l.t.Helper()
	cookie := l.cookie
	l.send(method, first, "", "Idempotency-Key: twice")
	l.cookie = cookie // clear starts another session
	return l.send(method, second, "", "Idempotency-Key: twice")
}

func unprocessable(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var paths struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &paths); err != nil {
		t.Fatal(err)
	}
	for path, members := range paths.Paths {
		for method, member := range members {
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				continue
			}
			var operation struct{ Responses map[string]any }
			if err := json.Unmarshal(member, &operation); err != nil {
				t.Fatal(err)
			}
			if operation.Responses["422"] != nil && !strings.HasPrefix(path, "/guest/") {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return slices.Sorted(slices.Values(all))
}

func member(pointer string) guest.FieldError   { return guest.FieldError{Pointer: pointer} }
func parameter(name string) guest.FieldError   { return guest.FieldError{Parameter: name} }
func headerField(name string) guest.FieldError { return guest.FieldError{Header: name} }

// refused is a request that gets a 422, and the fields that the answer must name.
type refused struct {
	send func() answer
	want fields
}

type fields = []guest.FieldError

func (l *listeners) refusedSearches(t *testing.T) map[string][]refused {
	t.Helper()
	item := parse[found](t, l.want(200, http.MethodPost, "/search", `{"region":"vienna"}`).body)
	hotel := "/hotels/" + item.Items[0].PropertyID
	post := func(path, body string) func() answer {
		return func() answer { return l.send(http.MethodPost, path, body) }
	}
	return map[string][]refused{
		"PATCH " + api + "/session/preferences": {
			{func() answer { return l.send(http.MethodPatch, "/session/preferences", `{"locale":"-"}`) }, fields{member("/locale")}},
			{func() answer { return l.send(http.MethodPatch, "/session/preferences", `{"currency":7}`) }, fields{member("/currency")}},
		},
		"PATCH " + api + "/session/attributes": {
			{func() answer { return l.send(http.MethodPatch, "/session/attributes", `[]`) }, fields{member("")}},
		},
		"POST " + api + "/session/link": {
			{post("/session/link", `{"token":7}`), fields{member("/token")}},
		},
		"POST " + api + "/session/recently-viewed": {
			{post("/session/recently-viewed", `{"tenantId":"x","propertyId":"`+property+`"}`), fields{member("/tenantId")}},
			{post("/session/recently-viewed", `[]`), fields{member("")}},
		},
		"POST " + api + "/session/clear": {
			{func() answer { return l.twice(http.MethodPost, "/session/clear", "/session/clear?other") }, fields{headerField("Idempotency-Key")}},
		},
		"POST " + api + "/search": {
			{post("/search", `{"adults":31}`), fields{member("/adults")}},
			{post("/search", `{"bounds":{"south":"x"}}`), fields{member("/bounds/south")}},
			{post("/search", `{"checkIn":"2037-01-01"}`), fields{member("/checkIn"), member("/checkOut")}},
			{post("/search", `{"checkIn":"2020-01-01","checkOut":"2020-01-02"}`), fields{member("/checkIn")}},
			{post("/search", `{"other":1}`), fields{member("")}},
		},
		"POST " + api + "/search/map": {
			{post("/search/map", `{"bounds":{"south":50,"west":0,"north":49,"east":1}}`), fields{member("/bounds")}},
		},
		"GET " + api + "/search/{srsId}": {
			{func() answer { return l.send(http.MethodGet, "/search/"+item.SearchID+"?page=1001", "") }, fields{parameter("page")}},
		},
		"GET " + api + "/hotels/{propertyId}": {
			{func() answer { return l.send(http.MethodGet, hotel+"?locale=-", "") }, fields{parameter("locale")}},
			{func() answer { return l.send(http.MethodGet, hotel+"?currency=eur", "") }, fields{parameter("currency")}},
		},
		"GET " + api + "/hotels/{propertyId}/availability": {
			{func() answer { return l.send(http.MethodGet, hotel+"/availability", "") }, fields{parameter("from"), parameter("to")}},
			{func() answer {
				return l.send(http.MethodGet, hotel+"/availability?from=2037-01-01&to=2037-01-02&rooms=11", "")
			}, fields{parameter("rooms")}},
			{func() answer { return l.send(http.MethodGet, hotel+"/availability?from=2020-01-01&to=2020-01-02", "") }, fields{parameter("from")}},
		},
	}
}

func (l *listeners) refusedWrites() map[string][]refused {
	mint := "/handoff/" + tenant + "/" + property
	replaced := func(old, text string) string { return strings.Replace(stay, old, text, 1) }
	post := func(path, body string) func() answer {
		return func() answer { return l.send(http.MethodPost, path, body) }
	}
	return map[string][]refused{
		"POST " + api + "/wishlist": {
			{post("/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+property+`","source":"x"}`), fields{member("/source")}},
			{post("/wishlist", `{"tenantId":"`+tenant+`","propertyId":"x","source":"list"}`), fields{member("/propertyId")}},
		},
		"PATCH " + api + "/wishlist/{propertyId}": {
			{func() answer { return l.send(http.MethodPatch, "/wishlist/"+property, `{}`) }, fields{member("/note")}},
			{func() answer {
				return l.send(http.MethodPatch, "/wishlist/"+property, `{"note":"`+strings.Repeat("x", 281)+`"}`)
			}, fields{member("/note")}},
		},
		"DELETE " + api + "/wishlist/{propertyId}": {
			{func() answer { return l.twice(http.MethodDelete, "/wishlist/"+property, "/wishlist/"+tenant) }, fields{headerField("Idempotency-Key")}},
		},
		"POST " + api + "/handoff/{tenantId}/{propertyId}": {
			{post("/handoff/x/"+property, stay), fields{parameter("tenantId")}},
			{post("/handoff/"+tenant+"/x", stay), fields{parameter("propertyId")}},
			{post(mint, replaced(`"adults":2`, `"adults":"2"`)), fields{member("/adults")}},
			{post(mint, replaced(`"rooms":1`, `"rooms":100`)), fields{member("/rooms")}},
			{post(mint, replaced("2037-01-02", "2036-12-30")), fields{member("/checkOut")}},
			{post(mint, strings.NewReplacer("2036-12-30", "2020-12-30", "2037", "2021").Replace(stay)), fields{member("/checkIn")}},
		},
		"POST " + api + "/telemetry/page-view": {
			{post("/telemetry/page-view", `{"items":[{"path":"x"}]}`), nil},
			{post("/telemetry/page-view", `{"items":[]}`), fields{member("/items")}},
		},
		"POST " + api + "/telemetry/funnel": {{post("/telemetry/funnel", `{"items":7}`), fields{member("/items")}}},
		"POST /internal/handoff/{id}/verify": {
			{func() answer { return l.site("/internal/handoff/bhd_1/verify", `{}`) }, fields{member("/token")}},
		},
		"POST /internal/handoff/{id}/consume": {
			{func() answer { return l.site("/internal/handoff/bhd_1/consume", `{"token":"x","guest":{"ip":7}}`) }, fields{member("/guest/ip")}},
		},
		"POST /internal/handoff/{id}/remove-items": {
			{func() answer {
				shop := newReceiver(l.t, newShop(l.t))
				path := "/internal/handoff/" + string(guest.NewID(guest.HandoffPrefix, clock.System())) + "/remove-items"
				return l.service(shop.base, shop.token("booking", ""), path, `{"items":[{"itemId":""}]}`)
			}, fields{member("/items/0/itemId")}},
		},
		"POST /internal/events": {
			{func() answer {
				return l.push(`{"specversion":"1.0","id":"a","source":"b","type":"c"}`, "Content-Type: application/cloudevents+json")
			}, fields{member("/time")}},
			{func() answer {
				return l.push(`{}`, "Content-Type: application/json", "ce-specversion: 1.0", "ce-id: "+strings.Repeat("a", 600), "ce-source: b", "ce-type: c", "ce-time: 2026-11-01T10:00:00Z")
			}, fields{headerField("ce-id")}},
		},
	}
}

// TestFieldErrors walks all operations that may return 422. Each answer must name the invalid fields as the client
// sent them.
func TestFieldErrors(t *testing.T) {
	t.Parallel()
	l := newListeners(t)
	cases := l.refusedSearches(t)
	maps.Copy(cases, l.refusedWrites())
	if walked, all := slices.Sorted(maps.Keys(cases)), unprocessable(t); !slices.Equal(walked, all) {
		t.Errorf("walked are\n%s\ndescribed\n%s", strings.Join(walked, "\n"), strings.Join(all, "\n"))
	}
	for operation, all := range cases {
		for i, c := range all {
			a := c.send()
			got := parse[struct{ Errors guest.FieldErrors }](t, a.body).Errors
			if a.status != 422 || len(got) == 0 {
				t.Errorf("%s, case %d: %d %s", operation, i, a.status, a.body)
			}
			for j := range got {
				if got[j].Code == "" || got[j].Detail == "" {
					t.Errorf("%s, case %d: %+v", operation, i, got[j])
				}
				got[j].Code, got[j].Detail = "", ""
			}
			if c.want != nil && !slices.Equal(got, c.want) {
				t.Errorf("%s, case %d: %+v, want %+v", operation, i, got, c.want)
			}
		}
	}
}

type zoned struct {
	catalogue.Source
	zone string
}

func (z *zoned) Property(ctx context.Context, property string) (catalogue.Property, error) {
	p, err := z.Source.Property(ctx, property)
	p.TimeZone = z.zone
	return p, err
}

// TestArrival checks that the arrival date is not past in the property's time zone. In an unknown zone, the date
// must be past everywhere to be refused.
func TestArrival(t *testing.T) {
	t.Parallel()
	now := clock.System()
	for _, c := range []struct {
		zone string
		at   *time.Location // zone in which the date is today
	}{
		{"Pacific/Kiritimati", time.FixedZone("", 14*60*60)},
		{"Pacific/Pago_Pago", time.FixedZone("", -11*60*60)},
		{"", time.FixedZone("", -12*60*60)},
		{"Local", time.FixedZone("", -12*60*60)},
		{"Mars/Olympus", time.FixedZone("", -12*60*60)},
	} {
		s := newServer(t).at(func(p *parts) {
			p.source, p.clock = &zoned{builtin.New(), c.zone}, func() time.Time { return now }
		})
		b := s.begin()
		today := now.In(c.at)
		day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
		for n, status := range map[int]int{-1: 422, 0: 201} {
			body := strings.NewReplacer("2036-12-30", day(n), "2037-01-02", day(n+2)).Replace(stay)
			if a := b.send(http.MethodPost, "/handoff/"+tenant+"/"+property, body); a.status != status {
				t.Errorf("%q, arrival %s (today%+d): %d %s", c.zone, day(n), n, a.status, a.body)
			}
		}
		for n, status := range map[int]int{-1: 422, 0: 200} {
			if a := b.send(http.MethodGet, "/hotels/"+property+"/availability?from="+day(n)+"&to="+day(n+1), ""); a.status != status {
				t.Errorf("%q, availability from today%+d: %d %s", c.zone, n, a.status, a.body)
			}
		}
	}
	// A search contains no time zone.
	s := newServer(t).at(func(p *parts) { p.clock = func() time.Time { return now } })
	last := now.In(time.FixedZone("", -12*60*60))
	for n, status := range map[int]int{-1: 422, 0: 200} {
		for _, path := range []string{"/search", "/search/map"} {
			body := `{"checkIn":"` + last.AddDate(0, 0, n).Format(time.DateOnly) + `","checkOut":"` + last.AddDate(0, 0, n+1).Format(time.DateOnly) + `"}`
			s.begin().want(status, http.MethodPost, path, body)
		}
	}
}

func TestMintLanguage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := newReceiver(t, s)
	bare := strings.Replace(stay, `,"currency":"EUR","locale":"de-AT"`, "", 1)
	for i, c := range []struct {
		body, preferences string
		headers           []string
		locale, currency  string
	}{
		{bare, "", nil, "en", "EUR"},
		{bare, "", []string{"Accept-Language: x;q=0.1, fr-CH;q=0.8, de;q=0.3", "X-Currency: CHF"}, "fr-CH", "CHF"},
		{bare, "", []string{"Accept-Language: *", "X-Currency: francs"}, "en", "EUR"},
		{bare, `{"locale":"cs","currency":"CZK"}`, []string{"Accept-Language: fr", "X-Currency: CHF"}, "cs", "CZK"},
		{stay, `{"locale":"cs","currency":"CZK"}`, []string{"Accept-Language: fr", "X-Currency: CHF"}, "de-AT", "EUR"},
	} {
		b := s.begin()
		if c.preferences != "" {
			b.want(200, http.MethodPatch, "/session/preferences", c.preferences)
		}
		a := b.send(http.MethodPost, "/handoff/"+tenant+"/"+property, c.body, c.headers...)
		b.check(a, 201)
		m := parse[minted](t, a.body)
		got := parse[struct{ Locale, Currency string }](t, r.want(200, "/internal/handoff/"+m.HandoffID+"/verify", `{"token":"`+m.Token+`"}`, ""))
		if got.Locale != c.locale || got.Currency != c.currency {
			t.Errorf("case %d: %+v", i, got)
		}
	}
}

// TestTotal also checks the total while tenants are suspended.
func TestTotal(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	const query = `{"region":"vienna","pageSize":3,"page":`
	first := parse[found](t, b.want(200, http.MethodPost, "/search", query+`1}`).body)
	if err := s.tenants.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.hot.SetSuspension(t.Context(), tenants.Suspension{Tenant: first.Items[0].TenantID, Suspended: true, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	pages, listed := (first.Total+2)/3, 0
	for page := 1; page <= pages; page++ {
		for _, got := range []found{
			parse[found](t, b.want(200, http.MethodPost, "/search", query+strconv.Itoa(page)+`}`).body),
			parse[found](t, b.want(200, http.MethodGet, "/search/"+first.SearchID+"?page="+strconv.Itoa(page), "").body),
		} {
			listed += len(got.Items)
			if got.Total != first.Total || (got.NextPage == nil) != (page == pages) {
				t.Errorf("page %d: total %d, next page %v; want %d", page, got.Total, got.NextPage, first.Total)
			}
		}
	}
	if listed == 0 || listed >= 2*first.Total {
		t.Errorf("%d properties listed twice of %d", listed, first.Total)
	}
}
