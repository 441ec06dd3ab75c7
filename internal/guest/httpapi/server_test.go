package httpapi_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/openapitest"
	"holdfast/internal/web/webtest"
)

const (
	api      = "/bff/consumer/v1"
	tenant   = "11111111-2222-4333-8444-555555555555"
	property = "22222222-2222-4333-8444-555555555555"
)

// described returns a client that checks every exchange against a profile's API description.
func described(t testing.TB, p *guest.Profile) *http.Client {
	t.Helper()
	d, err := description(p)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: &openapitest.Transport{Document: d, Next: webtest.Transport, Report: func(err error) { t.Error(err) }}}
}

func description(p *guest.Profile) (*openapitest.Document, error) {
	name := guest.Hotel.Name
	if p != nil {
		name = p.Name
	}
	descriptions.Lock()
	defer descriptions.Unlock()
	if d := descriptions.by[name]; d != nil {
		return d, nil
	}
	text, err := httpapi.Describe(p)
	if err != nil {
		return nil, err
	}
	d, err := openapitest.Load(text)
	if err == nil {
		descriptions.by[name] = d
	}
	return d, err
}

var descriptions = struct {
	sync.Mutex
	by map[string]*openapitest.Document
}{by: map[string]*openapitest.Document{}}

type browser struct {
	*server
	cookie string
	keys   int
}

type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request. Each change gets a new idempotency key, unless headers contain one.
func (b *browser) send(method, path, body string, headers ...string) answer {
	b.t.Helper()
	var text io.Reader
	if body != "" {
		text = strings.NewReader(body)
	}
	r := webtest.Request(b.t, b.base, method, api+path, text)
	b.keys++
	r.Header.Set("Idempotency-Key", fmt.Sprintf(`"key-%d"`, b.keys))
	if b.cookie != "" {
		r.Header.Set("Cookie", "gms="+b.cookie)
	}
	webtest.SetHeaders(r, headers...)
	resp, err := described(b.t, b.profile).Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		b.cookie = c.Value
	}
	return answer{resp.StatusCode, resp.Header, string(all)}
}

func (b *browser) want(status int, method, path, body string, parts ...string) answer {
	b.t.Helper()
	a := b.send(method, path, body)
	b.check(a, status, parts...)
	return a
}

func (b *browser) check(a answer, status int, parts ...string) {
	b.t.Helper()
	if a.status != status {
		b.t.Errorf("%d %s, want %d", a.status, a.body, status)
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			b.t.Errorf("no %s in %s", p, a.body)
		}
	}
	if c := a.header.Get("Cache-Control"); c != "private, no-store" {
		b.t.Errorf("Cache-Control: %s", c)
	}
	if kind := a.header.Get("Content-Type"); status >= 400 && kind != "application/problem+json" || status < 300 && status != 204 && kind != "application/json" {
		b.t.Errorf("%d has Content-Type %s", status, kind)
	}
}

func (s *server) begin() *browser {
	s.t.Helper()
	b := &browser{server: s}
	b.want(http.StatusCreated, http.MethodPost, "/session", "", `"createdAt":`)
	return b
}

func wish(property string) string {
	return `{"tenantId":"` + tenant + `","propertyId":"` + property + `","source":"list"}`
}

func TestDay(t *testing.T) {
	t.Parallel()
	b := newServer(t).begin()
	b.want(200, http.MethodPost, "/session", "", `"preferences":{}`)
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT","currency":"EUR"}`, `"locale":"de-AT"`, `"currency":"EUR"`)
	b.want(200, http.MethodPatch, "/session/preferences", `{"currency":"CHF"}`, `"locale":"de-AT"`, `"currency":"CHF"`)
	b.want(200, http.MethodGet, "/session", "", `"currency":"CHF"`)
	b.want(200, http.MethodGet, "/wishlist", "", `{"items":[],"nextCursor":null}`)

	added := b.want(201, http.MethodPost, "/wishlist", wish(property), `"id":"wsh_`, `"propertyId":"`+property+`"`)
	if at := added.header.Get("Location"); at != api+"/wishlist/"+property {
		t.Errorf("Location: %s", at)
	}
	again := b.send(http.MethodPost, "/wishlist", wish(strings.ToUpper(property)))
	b.check(again, 200)
	if again.body != added.body {
		t.Errorf("added again: %s, want %s", again.body, added.body)
	}
	b.want(200, http.MethodPatch, "/wishlist/"+property, `{"note":"for <May> & \"June\""}`, `"note":"for \u003cMay\u003e \u0026 \"June\""`)
	b.want(200, http.MethodGet, "/wishlist", "", `"note":"for`)
	b.want(204, http.MethodDelete, "/wishlist/"+property, "")
	b.want(204, http.MethodDelete, "/wishlist/"+property, "")
	b.want(204, http.MethodDelete, "/wishlist/nothing", "")
	b.want(200, http.MethodGet, "/openapi.json", "", `"openapi": "3.1.0"`)
	b.want(404, http.MethodPatch, "/wishlist/"+property, `{"note":""}`, `"code":"not-found"`)
	b.want(404, http.MethodPatch, "/wishlist/nothing", `{"note":""}`, `"code":"not-found"`)
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	b.want(201, http.MethodPost, "/wishlist", wish(property))

	old := *b
	b.want(204, http.MethodPost, "/session/clear", "")
	if b.cookie == old.cookie {
		t.Error("the session is the same after clear")
	}
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	b.want(200, http.MethodGet, "/session", "", `"preferences":{}`)
	old.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
}

// TestLostSession checks that a session lost by hot state continues with its ID and wishlist, but without other
// data.
func TestLostSession(t *testing.T) {
	t.Parallel()
	inProfiles(t, lostSession)
}

func lostSession(t *testing.T, s *server) {
	b := s.begin()
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de"}`)
	b.want(201, http.MethodPost, "/wishlist", s.wish(s.item()))
	id, _, _ := strings.Cut(b.cookie, ".")
	if err := s.hot.DropSession(t.Context(), guest.ID(id), nil); err != nil {
		t.Fatal(err)
	}
	b.want(200, http.MethodGet, "/session", "", `"preferences":{}`)
	b.want(200, http.MethodGet, "/wishlist", "", s.item())
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	inProfiles(t, idempotency)
}

func idempotency(t *testing.T, s *server) {
	b := s.begin()
	first := b.send(http.MethodPost, "/wishlist", s.wish(s.item()), `Idempotency-Key: "a"`)
	b.check(first, 201)
	b.want(204, http.MethodDelete, "/wishlist/"+s.item(), "")
	spaced := strings.ReplaceAll(s.wish(s.item()), ",", " ,\n ")
	for _, headers := range [][]string{
		{`Idempotency-Key: "a"`}, {"Idempotency-Key: a"}, {"Idempotency-Key", "X-Idempotency-Key: a"}, {`Idempotency-Key: "a"`, "X-Idempotency-Key: a"},
	} {
		a := b.send(http.MethodPost, "/wishlist", spaced, headers...)
		b.check(a, 201)
		if a.body != first.body || a.header.Get("Idempotency-Replayed") != "true" || a.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("%s: %v %s, want %s", headers, a.header, a.body, first.body)
		}
	}
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)

	other := strings.Replace(s.wish(s.item()), "list", "map", 1)
	b.check(b.send(http.MethodPost, "/wishlist", other, "Idempotency-Key: a"), 422, `"code":"idempotency-key-reused"`)
	b.check(b.send(http.MethodPost, "/wishlist?a=b", s.wish(s.item()), "Idempotency-Key: a"), 422, `"code":"idempotency-key-reused"`)
	for _, headers := range [][]string{{"Idempotency-Key"}, {"Idempotency-Key:  "}, {`Idempotency-Key: ""`}, {`Idempotency-Key: "`}, {`Idempotency-Key: "c`}, {`Idempotency-Key: "c"d"`}, {`Idempotency-Key: "c\"`}, {`Idempotency-Key: "c";p=1`}, {"Idempotency-Key: ä"}, {"X-Idempotency-Key: b"}, {"Idempotency-Key: " + strings.Repeat("a", 256)}} {
		b.check(b.send(http.MethodPost, "/wishlist", s.wish(s.item()), headers...), 400, `"code":"idempotency-key-`)
	}
	// The refusal by a full list is stored, too.
	for n := range guest.MaxWishes {
		b.want(201, http.MethodPost, "/wishlist", s.wish(s.nth(n)))
	}
	full := b.send(http.MethodPost, "/wishlist", s.wish(s.item()), "Idempotency-Key: full")
	b.check(full, 409, `"code":"wishlist-full"`, `"retriable":false`, `"instance":"`+api+`/wishlist"`)
	if strings.Contains(full.body, "requestId") {
		t.Errorf("an answer that is stored names a request: %s", full.body)
	}
	b.want(204, http.MethodDelete, "/wishlist/"+s.nth(0), "")
	if a := b.send(http.MethodPost, "/wishlist", s.wish(s.item()), "Idempotency-Key: full"); a.status != 409 || a.body != full.body {
		t.Errorf("repeated: %d %s", a.status, a.body)
	}
	b.want(201, http.MethodPost, "/wishlist", s.wish(s.item()))
}

func TestRemoveWithoutKey(t *testing.T) {
	t.Parallel()
	inProfiles(t, removeWithoutKey)
}

func removeWithoutKey(t *testing.T, s *server) {
	b := s.begin()
	for range 2 {
		b.want(201, http.MethodPost, "/wishlist", s.wish(s.item()))
		b.check(b.send(http.MethodDelete, "/wishlist/"+s.item(), "", "Idempotency-Key"), 204)
		b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
		b.check(b.send(http.MethodDelete, "/wishlist/"+s.item(), "", "Idempotency-Key"), 204)
	}
	b.check(b.send(http.MethodDelete, "/wishlist/"+s.item(), "", `Idempotency-Key: ""`), 400, `"code":"idempotency-key-invalid"`)
	b.check(b.send(http.MethodPatch, "/wishlist/"+s.item(), `{"note":""}`, "Idempotency-Key"), 400, `"code":"idempotency-key-missing"`)
	b.check(b.send(http.MethodDelete, "/wishlist/"+s.item(), "", "Idempotency-Key: a"), 204)
	b.want(201, http.MethodPost, "/wishlist", s.wish(s.item()))
	if a := b.send(http.MethodDelete, "/wishlist/"+s.item(), "", "Idempotency-Key: a"); a.status != 204 || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated: %d %v", a.status, a.header)
	}
	b.want(200, http.MethodGet, "/wishlist", "", s.item()) // not executed again
}

// spelledTenant returns the tenant as tnt_ and a ULID.
func spelledTenant(t *testing.T) string {
	t.Helper()
	var bits ulid.ULID
	if _, err := hex.Decode(bits[:], []byte(strings.ReplaceAll(tenant, "-", ""))); err != nil {
		t.Fatal(err)
	}
	return "tnt_" + bits.String()
}

// TestTenantSpelling checks that an answer repeats a tenant spelled as tnt_ and a ULID. It means the same tenant
// as the UUID.
func TestTenantSpelling(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	spelled := spelledTenant(t)
	entry := `{"tenantId":"` + spelled + `","propertyId":"` + property + `","source":"list"}`
	b.want(201, http.MethodPost, "/wishlist", entry, `"tenantId":"`+spelled+`"`)
	b.want(200, http.MethodPost, "/wishlist", wish(property), `"tenantId":"`+tenant+`"`)
	b.want(200, http.MethodPost, "/wishlist", entry, `"tenantId":"`+spelled+`"`)
	b.want(200, http.MethodGet, "/wishlist", "", `"tenantId":"`+tenant+`"`)
	b.want(201, http.MethodPost, "/session/recently-viewed", `{"tenantId":"`+spelled+`","propertyId":"`+property+`"}`, `"tenantId":"`+spelled+`"`)
	b.want(200, http.MethodGet, "/session/recently-viewed", "", `"tenantId":"`+tenant+`"`)
	short, long := b.send(http.MethodGet, "/brands/"+tenant+"/peek", ""), b.send(http.MethodGet, "/brands/"+spelled+"/peek", "")
	if long.status != 200 || long.body != strings.Replace(short.body, tenant, spelled, 1) || long.header.Get("Etag") == short.header.Get("Etag") {
		t.Errorf("brand %d %s %v, want %s", long.status, long.body, long.header, short.body)
	}
	if a := b.send(http.MethodGet, "/brands/"+spelled+"/peek", "", "If-None-Match: "+long.header.Get("Etag")); a.status != http.StatusNotModified {
		t.Errorf("brand again: %d", a.status)
	}
	b.want(201, http.MethodPost, "/handoff/"+spelled+"/"+property, stay)
	for _, wrong := range []string{strings.ToLower(spelled), "tnt_" + tenant, "gms" + spelled[3:], spelled + "0"} {
		b.want(422, http.MethodPost, "/wishlist", strings.Replace(entry, spelled, wrong, 1), `"code":"invalid"`)
	}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	inProfiles(t, storm)
}

func storm(t *testing.T, s *server) {
	b := s.begin()
	bodies := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 50 {
		racer := *b
		all.Go(func() {
			a := racer.send(http.MethodPost, "/wishlist", s.wish(s.item()), "Idempotency-Key: storm")
			if a.status == 201 {
				mu.Lock()
				defer mu.Unlock()
				bodies[a.body]++
			} else if !strings.Contains(a.body, `"code":"in-flight"`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	all.Wait()
	if len(bodies) != 1 {
		t.Errorf("%d different answers: %v", len(bodies), bodies)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	inProfiles(t, pages)
}

func pages(t *testing.T, s *server) {
	b := s.begin()
	for n := range 25 {
		b.want(201, http.MethodPost, "/wishlist", s.wish(s.nth(n)))
	}
	for _, limit := range []int{1, 7, 25, 100} {
		seen := map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Items      []struct{ ID string }
				NextCursor *string
			}
			a := b.want(200, http.MethodGet, fmt.Sprintf("/wishlist?limit=%d%s", limit, cursor), "")
			if err := json.Unmarshal([]byte(a.body), &page); err != nil || len(page.Items) > limit {
				t.Fatal(a.body, err)
			}
			for _, w := range page.Items {
				if seen[w.ID] {
					t.Errorf("%s twice", w.ID)
				}
				seen[w.ID] = true
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if len(seen) != 25 {
			t.Errorf("limit %d: %d entries", limit, len(seen))
		}
	}
	for _, query := range []string{"?limit=0", "?limit=101", "?limit=x", "?limit=1&limit=2", "?cursor=x", "?cursor=", "?other=1", "?cursor=MS53", "?%zz"} {
		b.want(400, http.MethodGet, "/wishlist"+query, "", `"code":"invalid"`)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	for name, c := range map[string]struct {
		status             int
		method, path, body string
		headers            []string
		code               string
	}{
		"no session":       {401, "GET", "/session", "", []string{"Cookie"}, "session-required"},
		"forged session":   {401, "GET", "/session", "", []string{"Cookie: gms=" + string(guest.NewID(guest.SessionPrefix, clock.System())) + ".a.b"}, "session-required"},
		"unknown path":     {404, "GET", "/nothing", "", nil, "not-found"},
		"deeper path":      {404, "GET", "/wishlist/a/b", "", nil, "not-found"},
		"no path":          {404, "GET", "", "", nil, "not-found"},
		"method":           {405, "PUT", "/wishlist", wish(property), nil, "method-not-allowed"},
		"cross-site":       {403, "POST", "/wishlist", wish(property), []string{"Sec-Fetch-Site: cross-site"}, "cross-site"},
		"same site":        {403, "POST", "/wishlist", wish(property), []string{"Sec-Fetch-Site: same-site"}, "cross-site"},
		"other origin":     {403, "POST", "/session/clear", "", []string{"Origin: https://evil.example"}, "cross-site"},
		"null origin":      {403, "DELETE", "/wishlist/" + property, "", []string{"Origin: null"}, "cross-site"},
		"form":             {415, "POST", "/wishlist", wish(property), []string{"Content-Type: text/plain"}, "media-type"},
		"no content type":  {415, "POST", "/wishlist", wish(property), []string{"Content-Type"}, "media-type"},
		"no JSON":          {400, "POST", "/wishlist", `{"a"`, nil, "invalid"},
		"empty":            {400, "POST", "/wishlist", "", []string{"Content-Type: application/json"}, "invalid"},
		"two values":       {400, "POST", "/wishlist", `{}{}`, nil, "invalid"},
		"no object":        {422, "POST", "/wishlist", `[]`, nil, "invalid"},
		"null":             {422, "POST", "/wishlist", `null`, nil, "invalid"},
		"null preferences": {422, "PATCH", "/session/preferences", `null`, nil, "invalid"},
		"unknown member":   {422, "POST", "/wishlist", `{"tenant":"x"}`, nil, "invalid"},
		"wrong type":       {422, "POST", "/wishlist", `{"tenantId":1}`, nil, "invalid"},
		"tenant":           {422, "POST", "/wishlist", `{"tenantId":"x","propertyId":"` + property + `","source":"list"}`, nil, "invalid"},
		"property":         {422, "POST", "/wishlist", wish("x"), nil, "invalid"},
		"source":           {422, "POST", "/wishlist", strings.Replace(wish(property), "list", "other", 1), nil, "invalid"},
		"long note":        {422, "POST", "/wishlist", strings.Replace(wish(property), `"source"`, `"note":"`+strings.Repeat("ä", 281)+`","source"`, 1), nil, "invalid"},
		"note with NUL":    {400, "POST", "/wishlist", strings.Replace(wish(property), `"source"`, `"note":"\u0000","source"`, 1), nil, "invalid"},
		"large":            {413, "POST", "/wishlist", `{"note":"` + strings.Repeat("a", 17<<10) + `"}`, nil, "too-large"},
		"no note":          {422, "PATCH", "/wishlist/" + property, `{}`, nil, "invalid"},
		"body for nothing": {400, "POST", "/session/clear", `{}`, nil, "invalid"},
		"locale":           {422, "PATCH", "/session/preferences", `{"locale":"deutsch-"}`, nil, "invalid"},
		"currency":         {422, "PATCH", "/session/preferences", `{"currency":"eur"}`, nil, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			on := *b
			on.server = &server{s.services, t, s.base}
			a := on.send(c.method, c.path, c.body, c.headers...)
			on.check(a, c.status, `"code":"`+c.code+`"`, fmt.Sprintf(`"status":%d`, c.status), `"detail":"`)
		})
	}
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	b.check(b.send(http.MethodPost, "/wishlist", wish(property), "Sec-Fetch-Site: same-origin", "Origin: "+s.base), 201)
}

// TestUnknownMembers checks that a problem lists the allowed members. It must not repeat client input, because
// problems are logged.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	b := newServer(t).begin()
	for body, want := range map[string]string{
		`{"secret":1}`: `"detail":"unknown member: expected tenantId, propertyId, source, note"`,
		`{"TENANTID":"x","secret":1,"Note":null}`: `"errors":[{"pointer":"","code":"invalid","detail":"unknown member: expected tenantId, propertyId, source, note"}]`,
		`{"tenantId":{"secret":1}}`:               `"detail":"tenantId: unexpected object"`,
	} {
		if a := b.want(422, http.MethodPost, "/wishlist", body, want); strings.Contains(a.body, "secret") || strings.Contains(a.body, "json") {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	b.want(422, http.MethodPatch, "/session/preferences", `{"secret":1}`, `"detail":"unknown member: expected locale, currency"`)
	for path, object := range map[string]string{"/search/map": `{"bounds":{"north":1,"secret":2}}`, "/search": `{"page":1,"bounds":{"secret":2}}`} {
		b.want(422, http.MethodPost, path, object, `"pointer":"/bounds"`, `"detail":"bounds: unknown member: expected south, west, north, east"`)
	}
	b.want(422, http.MethodPost, "/handoff/"+tenant+"/"+property, `{"secret":1}`, `expected checkIn, checkOut, adults, children, rooms, currency, locale, campaign"`)
}

func TestHead(t *testing.T) {
	t.Parallel()
	b := newServer(t).begin()
	for _, path := range []string{"/session", "/wishlist", "/openapi.json", "/facets/AT/vienna", "/nothing"} {
		var answers [2]*http.Response
		for i, method := range []string{http.MethodGet, http.MethodHead} {
			r := webtest.Request(t, b.base, method, api+path, nil)
			r.Header.Set("Cookie", "gms="+b.cookie)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			answers[i] = resp
		}
		get, head := answers[0], answers[1]
		if get.StatusCode != head.StatusCode || get.Header.Get("Content-Type") != head.Header.Get("Content-Type") || get.ContentLength != head.ContentLength || path != "/nothing" && get.StatusCode != 200 {
			t.Errorf("%s: GET %d, %d bytes; HEAD %d, %d bytes", path, get.StatusCode, get.ContentLength, head.StatusCode, head.ContentLength)
		}
	}
	a := b.want(405, http.MethodPut, "/wishlist", "", `this path supports GET, HEAD, POST"`)
	if allow := a.header.Get("Allow"); allow != "GET, HEAD, POST" {
		t.Errorf("Allow: %s", allow)
	}
	r := webtest.Request(t, b.base, http.MethodHead, api+"/search", nil)
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Error("HEAD of a path without GET:", resp, err)
	}
}

func TestCookies(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.begin(), s.begin()
	a.want(201, http.MethodPost, "/wishlist", wish(property))
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	b.check(b.send(http.MethodGet, "/wishlist", "", "Cookie: gms=x; gms="+a.cookie), 200, property)
	fresh := &browser{server: s}
	got := fresh.send(http.MethodPost, "/session", "", "Cookie: gms="+a.cookie[:len(a.cookie)-1])
	fresh.check(got, 201)
	header := got.header.Get("Set-Cookie")
	for _, part := range []string{"gms=gms_", "Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Lax"} {
		if !strings.Contains(header, part) {
			t.Errorf("no %s in %s", part, header)
		}
	}
	if strings.Contains(header, "Domain") || got.header.Get("Set-Cookie") == "" {
		t.Errorf("Set-Cookie: %s", header)
	}
	(&browser{server: s}).want(200, http.MethodGet, "/openapi.json", "") // needs no cookie
	// The first private answer of a day renews the cookie. A new process does not remember the renewal.
	a.server = s.at(func(*parts) {})
	public := a.send(http.MethodGet, "/hotels/"+property, "").header.Values("Set-Cookie")
	renewed := a.send(http.MethodGet, "/wishlist", "").header.Values("Set-Cookie")
	again := slices.Concat(a.send(http.MethodGet, "/wishlist", "").header.Values("Set-Cookie"), a.send(http.MethodGet, "/session", "").header.Values("Set-Cookie"))
	if len(public) > 0 || len(renewed) != 1 || !strings.HasPrefix(renewed[0], "gms="+a.cookie+";") || !strings.Contains(renewed[0], "Max-Age=2592000") || len(again) > 0 {
		t.Errorf("Set-Cookie of visits: public %q, the first private one %q, then %q", public, renewed, again)
	}
}

// TestNestedErrors also checks a stored error and its repeat.
func TestNestedErrors(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	p.nestErrors, p.source = true, nil
	base := serve(t, p).base
	cookie := ""
	send := func(method, path, body, key string) (status int, text string) {
		t.Helper()
		r := webtest.Request(t, base, method, api+path, strings.NewReader(body))
		webtest.SetHeaders(r, "Content-Type: application/json", "Idempotency-Key: "+key, "Cookie: gms="+cookie)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if kind := resp.Header.Get("Content-Type"); err != nil || kind != "application/json" {
			t.Errorf("%v, Content-Type %s", err, kind)
		}
		for _, c := range resp.Cookies() {
			cookie = c.Value
		}
		return resp.StatusCode, string(all)
	}
	want := func(status int, text string, wantStatus int, code string) {
		t.Helper()
		var body struct{ Error struct{ Code string } }
		if err := json.Unmarshal([]byte(text), &body); err != nil || status != wantStatus || body.Error.Code != code {
			t.Errorf("%d %s, want %d %s", status, text, wantStatus, code)
		}
	}
	status, text := send(http.MethodGet, "/session", "", "a")
	want(status, text, 401, "session-required")
	send(http.MethodPost, "/session", "", "b")
	wish := func(tenant, key string) (int, string) {
		return send(http.MethodPost, "/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+property+`","source":"list"}`, key)
	}
	wish(tenant, "c")
	status, first := wish(property, "d") // another tenant's property
	want(status, first, 409, "other-tenant")
	if _, again := wish(property, "d"); again != first {
		t.Errorf("repeated: %s, want %s", again, first)
	}
}
