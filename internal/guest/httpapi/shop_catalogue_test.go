package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/upstream"
	"holdfast/internal/ident"
)

const otherTenant = "33333333-2222-4333-8444-555555555555"

// shelf is a shop's catalogue. It answers with the request itself, and an item of another tenant.
type shelf struct {
	*httptest.Server
	calls atomic.Int64
	fails atomic.Bool
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	if len(body) == 0 {
		body = []byte("null")
	}
	switch {
	case s.fails.Load():
		w.WriteHeader(http.StatusInternalServerError)
	case strings.Contains(r.URL.Path, "nothing"):
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(r.URL.Path, "list"):
		_, _ = io.WriteString(w, `[]`)
	case strings.Contains(r.URL.Path, "stranger"):
		_, _ = io.WriteString(w, `{"tenantId":"sku"}`)
	case strings.Contains(r.URL.Path, "others"):
		_, _ = io.WriteString(w, `{"itemId":"others","tenantId":"tnt_1K6CSK68H28CSR8H2NANANANAN"}`)
	default:
		fmt.Fprintf(w, `{"asked": %q, "body": %s, "total": 30, "items": [{"itemId":"sku-1"}, {"itemId":"sku-2","tenantId":%q}]}`, r.Method+" "+r.URL.String(), body, strings.ToUpper(otherTenant))
	}
}

// newShelf changes the parts to a shop that uses its catalogue.
func newShelf(t testing.TB, p *parts) *shelf {
	t.Helper()
	s := &shelf{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	client := upstream.New(catalogue.Upstreams{Timeout: 4 * time.Second, MaxBody: 16 << 10})
	t.Cleanup(client.Close)
	p.profile, p.fetcher = shop(), client
	p.profile.Name = "shop-" + ident.New() // needs its own description
	p.profile.Criteria = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string"},"category":{"enum":["books","toys"]},"max":{"type":"integer"}}}`)
	p.profile.Upstreams = []guest.Upstream{
		{Name: "search", URL: s.URL + "/search", Fresh: time.Minute, Stale: catalogue.StaleLife},
		{Name: "product", URL: s.URL + "/products/", Path: []string{"itemId"}, Parameters: []string{"locale", "currency"}, Fresh: 5 * time.Minute, Stale: time.Hour},
		{Name: "shelf", URL: s.URL + "/shelves", Path: []string{"area", "shelf"}, Parameters: []string{"sort"}, Fresh: time.Minute, Stale: catalogue.StaleLife},
	}
	return s
}

func inShelves(t *testing.T, test func(*testing.T, *server, *shelf)) {
	onParts(t, func(t testing.TB, p *parts) func(*testing.T, *server) {
		shelf := newShelf(t, p)
		return func(t *testing.T, s *server) { test(t, s, shelf) }
	})
}

// TestShopSearch also checks that equal searches cause one call.
func TestShopSearch(t *testing.T) {
	t.Parallel()
	inShelves(t, func(t *testing.T, s *server, shelf *shelf) {
		b := &browser{server: s}
		a := b.want(200, http.MethodPost, "/search", `{"criteria":{"text":"duck","category":"toys","max":2.0},"pageSize":10}`,
			`"query":{"criteria":{"max":2,"text":"duck","category":"toys"},"page":1,"pageSize":10,"locale":"en","currency":"EUR"}`,
			`"items":[{"itemId":"sku-1"},{"itemId":"sku-2","tenantId":"`+strings.ToUpper(otherTenant)+`"}],"total":30,"page":1,"nextPage":2}`)
		if b.cookie == "" || a.header.Get("X-Cache") != "MISS" {
			t.Errorf("no session, or %v", a.header)
		}
		var found struct{ SearchID string }
		if err := json.Unmarshal([]byte(a.body), &found); err != nil {
			t.Fatal(err)
		}
		b.want(200, http.MethodPost, "/search", `{"pageSize":10,"criteria":{"max":2,"category":"toys","text":"duck"},"page":1}`, `"total":30`)
		if n := shelf.calls.Load(); n != 1 {
			t.Errorf("%d calls for one search", n)
		}
		b.want(200, http.MethodGet, "/search/"+found.SearchID+"?page=3", "", `"page":3,"nextPage":null`)
		b.want(422, http.MethodGet, "/search/"+found.SearchID+"?page=1001", "", `"parameter":"page"`)
		if text := b.want(200, http.MethodGet, "/session/history", "", `"criteria":{"max":2,"text":"duck","category":"toys"}`).body; strings.Count(text, `"searchId"`) != 1 {
			t.Errorf("history: %s", text)
		}
		for body, part := range map[string]string{
			`{"criteria":{"category":"cars"}}`:       `"pointer":"/criteria/category"`,
			`{"criteria":{"color":"red"}}`:           `"pointer":"/criteria`,
			`{"criteria":"duck"}`:                    `"pointer":"/criteria"`,
			`{"criteria":null}`:                      `"pointer":"/criteria"`,
			`{}`:                                     `"pointer":"/criteria"`,
			`{"criteria":{},"page":1001}`:            `"pointer":"/page"`,
			`{"criteria":{},"pageSize":101}`:         `"pointer":"/pageSize"`,
			`{"criteria":{},"locale":"?"}`:           `"pointer":"/locale"`,
			`{"criteria":{},"currency":"euro"}`:      `"pointer":"/currency"`,
			`{"criteria":{},"checkIn":"2036-12-30"}`: "expected criteria, page, pageSize, locale, currency",
		} {
			b.want(422, http.MethodPost, "/search", body, part)
		}
		b.want(404, http.MethodGet, "/search/map", "")
		searches := s.observed("search.executed.v1")
		const query = `"kind":"list","query":{"criteria":{"category":"toys","max":2},"page":1,"pageSize":10,"locale":"en","currency":"EUR"},"hasText":true,"total":30,"cache":"MISS"`
		if len(searches) != 3 || !strings.Contains(searches[0], query) || strings.Contains(strings.Join(searches, ""), "duck") {
			t.Errorf("events %v", searches)
		}
		shelf.fails.Store(true)
		b.want(200, http.MethodPost, "/search", `{"criteria":{"text":"duck","category":"toys","max":2},"pageSize":10}`)
		b.want(503, http.MethodPost, "/search", `{"criteria":{"text":"goose"}}`, `"unavailable"`)
	})
}

// TestShopAnswers checks that upstream answers are equal for all guests, and cached by path and parameters.
func TestShopAnswers(t *testing.T) {
	t.Parallel()
	inShelves(t, func(t *testing.T, s *server, shelf *shelf) {
		b := s.begin()
		asked := func(path, want string, headers ...string) answer {
			t.Helper()
			a := b.send(http.MethodGet, path, "", headers...)
			if a.status != 200 || !strings.HasPrefix(a.body, `{"asked":"`+strings.ReplaceAll(want, "&", `\u0026`)) && !strings.HasPrefix(a.body, `{"asked":"`+want) {
				t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
			}
			return a
		}
		a := asked("/catalogue/product/sku-4711", `GET /products/sku-4711?currency=EUR&locale=en"`)
		for name, want := range map[string]string{"X-Cache": "MISS", "Set-Cookie": "", "RateLimit": "", "Vary": "Accept-Language, X-Currency, Accept-Encoding"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if c := a.header.Get("Cache-Control"); !strings.HasPrefix(c, "public, max-age=") || !strings.HasSuffix(c, ", stale-if-error=3600") {
			t.Errorf("Cache-Control: %s", c)
		}
		if again := b.send(http.MethodGet, "/catalogue/product/sku-4711", "", "If-None-Match: "+a.header.Get("Etag")); again.status != http.StatusNotModified {
			t.Errorf("again: %d", again.status)
		}
		asked("/catalogue/product/sku-4711?locale=de-at&currency=CHF", `GET /products/sku-4711?currency=CHF&locale=de-AT"`)
		asked("/catalogue/product/sku-4711", `GET /products/sku-4711?currency=CHF&locale=de-AT"`, "Accept-Language: de-AT", "X-Currency: CHF")
		if n := shelf.calls.Load(); n != 2 {
			t.Errorf("%d calls", n)
		}
		asked("/catalogue/shelf/a%2Fb/c%3Ad", `GET /shelves/a%2Fb/c:d"`)
		asked("/catalogue/shelf/a%2Fb%3Ac/d", `GET /shelves/a%2Fb:c/d"`)
		asked("/catalogue/shelf/a/b?sort=x%26y%3D1", `GET /shelves/a/b?sort=x%26y%3D1"`)
		for path, status := range map[string]int{
			"/catalogue/product/nothing": 404, "/catalogue/product/%2E%2E": 404, "/catalogue/product": 404, "/catalogue/product/a/b": 404, "/catalogue/search": 404,
			"/catalogue/other/a": 404, "/catalogue/shelf/../a": 404, "/catalogue/shelf/%2E%2E/a": 404, "/catalogue/shelf/a%00/b": 404,
			"/catalogue/product/sku-1?locale=%3F": 422, "/catalogue/product/sku-1?currency=euro": 422, "/catalogue/product/sku-1?sort=a": 400,
			"/catalogue/product/sku-1?locale=de&locale=en": 400, "/catalogue/shelf/a/b?sort=" + strings.Repeat("a", 201): 422,
			"/catalogue/product/list": 503, "/catalogue/product/stranger": 503, "/hotels/" + property: 404,
		} {
			if a := b.send(http.MethodGet, path, ""); a.status != status {
				t.Errorf("%s: %d %s, want %d", path, a.status, a.body, status)
			}
		}
		views := s.observed("detail.viewed.v1")
		if len(views) != 4 || !strings.HasSuffix(views[0], `"itemId":"sku-4711","upstream":"product","cache":"MISS"}`) {
			t.Errorf("views %v", views)
		}
	})
}

func TestShopSuspended(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	newShelf(t, &p)
	s := serve(t, p)
	b := s.begin()
	read := func(path string) (int, string) {
		a := b.send(http.MethodGet, path, "")
		return a.status, a.body
	}
	for _, path := range []string{"/catalogue/product/sku-1", "/catalogue/product/others"} {
		if status, text := read(path); status != 200 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	suspend := func(tenant string) {
		if err := s.tenants.Suspend(t.Context(), tenant, true, "unpaid"); err != nil {
			t.Fatal(err)
		}
	}
	suspend(otherTenant)
	if status, text := read("/catalogue/product/sku-1"); status != 200 || strings.Contains(text, "sku-2") || !strings.Contains(text, "sku-1") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := read("/catalogue/product/others"); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	b.want(200, http.MethodPost, "/search", `{"criteria":{}}`, `"items":[{"itemId":"sku-1"}],"total":30`)
	suspend(tenant) // the owner of items without a tenant
	b.want(200, http.MethodPost, "/search", `{"criteria":{}}`, `"items":[],"total":30`)
}

func TestShopWithoutCatalogue(t *testing.T) {
	t.Parallel()
	b := newShop(t).begin()
	b.want(404, http.MethodPost, "/search", `{"criteria":{}}`)
	b.want(404, http.MethodGet, "/session/history", "")
	b.want(404, http.MethodGet, "/catalogue/product/sku-1", "")
	newServer(t).begin().want(404, http.MethodGet, "/catalogue/product/sku-1", "")
	p := newParts(t)
	newShelf(t, &p)
	text := serve(t, p).begin().want(200, http.MethodGet, "/openapi.json", "", `"/bff/consumer/v1/catalogue/product/{itemId}"`, `"urn:holdfast:guest:criteria"`, `"/bff/consumer/v1/search/{srsId}"`).body
	for _, word := range []string{"/hotels/", "/facets/", "/search/map", "checkIn", "Bounds", "propertyId"} {
		if strings.Contains(text, word) {
			t.Errorf("the description has %s", word)
		}
	}
}
