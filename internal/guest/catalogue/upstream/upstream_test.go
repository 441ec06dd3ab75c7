//test:unraced the race detector makes it ten times as slow

package upstream_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/upstream"
)

const (
	property = "22222222-2222-4333-8444-555555555555"
	tenant   = "11111111-2222-4333-8444-555555555555"
	trace    = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

func serve(t *testing.T, handler http.HandlerFunc) *upstream.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c := upstream.New(catalogue.Upstreams{
		Search: s.URL + "/search", Map: s.URL + "/map/", Detail: s.URL + "/detail", Availability: s.URL + "/availability", Facets: s.URL + "/facets",
		Brand: s.URL + "/brand", Property: s.URL + "/property", Token: "secret", Timeout: 4 * time.Second, MaxBody: 4 << 10,
	})
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	t.Parallel()
	var last, body string
	item := `{"propertyId":"` + strings.ToUpper(property) + `","tenantId":"` + tenant + `","name":"A","more":1}`
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		last, body = r.Method+" "+r.URL.String(), string(text)
		if r.Header.Get("Traceparent") != trace || r.Header.Get("Tracestate") != "a=b,c=d" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s: %v", last, r.Header)
		}
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"items":[`+item+`],"total":7}`)
			return
		}
		_, _ = io.WriteString(w, item)
	})
	ctx := guest.WithTrace(t.Context(), guest.Trace{Parent: trace, State: "a=b,c=d"})
	check := func(want string, err error) {
		t.Helper()
		if err != nil || last != want {
			t.Errorf("%s, want %s: %v", last, want, err)
		}
	}
	q := catalogue.SearchQuery{Region: "vienna", Locale: "de", Currency: "EUR"}
	r, err := c.Search(ctx, q)
	check("POST /search", err)
	var sent catalogue.SearchQuery
	if json.Unmarshal([]byte(body), &sent) != nil || sent.Region != "vienna" || r.Total != 7 || r.Items[0].PropertyID != property {
		t.Errorf("%s: %+v", body, r)
	}
	p, err := c.Map(ctx, q)
	check("POST /map", err)
	if p.Total != 7 || p.Items[0].TenantID != tenant {
		t.Errorf("%+v", p)
	}
	h, err := c.Hotel(ctx, property, "de", "EUR")
	check("GET /detail/"+property+"?currency=EUR&locale=de", err)
	if h.Name != "A" || h.PropertyID != property {
		t.Errorf("%+v", h)
	}
	_, err = c.Availability(ctx, catalogue.AvailabilityQuery{Property: property, From: "2037-01-01", To: "2037-01-02", Adults: 2, Rooms: 1})
	check("GET /availability/"+property+"?adults=2&children=0&from=2037-01-01&rooms=1&to=2037-01-02", err)
	_, err = c.Facets(ctx, "AT", "vienna")
	check("GET /facets/AT/vienna", err)
	_, err = c.Brand(ctx, tenant)
	check("GET /brand/"+tenant, err)
	_, err = c.Property(ctx, property)
	check("GET /property/"+property, err)
}

// TestErrors checks that invalid answers are errors, and that only 404 and 410 mean "not found".
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"status":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"forbidden":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"other type": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"name":1}`) },
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"`+strings.Repeat("a", 5<<10)+`"}`)
		},
		"bad ID": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"propertyId":"x","tenantId":"y"}`)
		},
		"another property": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"propertyId":"`+tenant+`","tenantId":"`+tenant+`"}`)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		},
	} {
		c := serve(t, handler)
		for _, call := range []func() error{
			func() error { _, err := c.Hotel(t.Context(), property, "de", "EUR"); return err },
			func() error { _, err := c.Property(t.Context(), property); return err },
		} {
			if err := call(); err == nil || errors.Is(err, catalogue.ErrNoProperty) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, err1 := c.Hotel(t.Context(), property, "de", "EUR")
		_, err2 := c.Brand(t.Context(), tenant)
		_, err3 := c.Facets(t.Context(), "AT", "vienna")
		if !errors.Is(err1, catalogue.ErrNoProperty) || !errors.Is(err2, catalogue.ErrNoTenant) || !errors.Is(err3, catalogue.ErrNoRegion) {
			t.Errorf("%d: %v, %v, %v", status, err1, err2, err3)
		}
	}
	c := upstream.New(catalogue.Upstreams{Search: "http://127.0.0.1:1", Timeout: time.Second, MaxBody: 1 << 10})
	if _, err := c.Property(t.Context(), property); err == nil || errors.Is(err, catalogue.ErrNoProperty) {
		t.Errorf("not set: %v", err)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	c := upstream.New(catalogue.Upstreams{Property: s.URL, Timeout: 50 * time.Millisecond, MaxBody: 1 << 10})
	if _, err := c.Property(t.Context(), property); err == nil {
		t.Error("no error")
	}
}
