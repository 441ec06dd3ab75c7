package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// TestBucketsPage checks that a web page can read error responses once the bucket's CORS rule allows its origin, and
// that a page from another origin can read nothing.
func TestBucketsPage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	listen := testdb.FreeAddress(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	c.want(http.StatusOK, http.MethodPut, "/photos/k", []byte("hello"))
	site := func() string {
		pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") }))
		t.Cleanup(pages.Close)
		return pages.URL
	}
	allowed, other := site(), site()
	link := func(method, path string, age time.Duration) string {
		r, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Presign(r, time.Minute, time.Now().Add(-age))
		return r.URL.String()
	}
	requests := []struct {
		name, method, url, want string
	}{
		{"link", "GET", link("GET", "/photos/k", 0), "200 hello"},
		{"upload by a link", "PUT", link("PUT", "/photos/new", 0), "200 "},
		{"upload by an expired link", "PUT", link("PUT", "/photos/new", time.Hour), "403 AccessDenied"},
		{"link with a wrong signature", "GET", c.URL + "/photos/k?" + strings.Replace(link("GET", "/photos/other", 0), c.URL+"/photos/other?", "", 1), "403 SignatureDoesNotMatch"},
		{"link for another method", "PUT", link("GET", "/photos/k", 0), "403 SignatureDoesNotMatch"},
		{"no credentials", "GET", c.URL + "/photos/k", "403 AccessDenied"},
		{"upload without credentials", "PUT", c.URL + "/photos/new", "403 AccessDenied"},
		{"no object", "GET", link("GET", "/photos/none", 0), "404 NoSuchKey"},
	}
	const ask = `try {
			const [method, url, cache] = arguments
			const a = await fetch(url, {method, cache, body: method == 'PUT' ? 'new' : undefined})
			const text = await a.text()
			return a.status + ' ' + (text.match(/<Code>(.*)<\/Code>/)?.[1] ?? text)
		} catch (e) { return e.name }`
	b := chromium.Start(t)
	page, stranger := b.Open(t, allowed), b.Open(t, other)
	for round, rule := range []string{"", allowed, "", allowed} {
		if rule != "" {
			c.want(http.StatusOK, http.MethodPut, "/photos?cors", []byte(`<CORSConfiguration><CORSRule><AllowedOrigin>`+rule+
				`</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader></CORSRule></CORSConfiguration>`))
		} else if round > 0 {
			c.want(http.StatusNoContent, http.MethodDelete, "/photos?cors", nil)
		}
		for _, r := range requests {
			want, cache := r.want, "default"
			if rule == "" {
				want = "TypeError"
			}
			if rule == "" && round > 0 {
				cache = "no-store" // the browser might reuse a cached response
			}
			if got := chromium.Run[string](t, page, ask, r.method, r.url, cache); got != want {
				t.Errorf("round %d, %s: the page sees %q, want %q", round, r.name, got, want)
			}
			if got := chromium.Run[string](t, stranger, ask, r.method, r.url, cache); got != "TypeError" {
				t.Errorf("round %d, %s: the page of another origin sees %q", round, r.name, got)
			}
		}
	}
}
