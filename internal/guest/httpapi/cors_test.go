package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/web/webtest"
)

const pageOrigin = "https://www.example.com"

// shared returns a server whose profile allows pageOrigin.
func shared(t testing.TB, profile *guest.Profile) *server {
	t.Helper()
	p := newParts(t)
	profile.Origins = []string{pageOrigin, "capacitor://localhost"}
	p.profile = profile
	return serve(t, p)
}

func hotel() *guest.Profile { return &guest.Profile{Name: guest.Hotel.Name, Types: guest.Hotel.Types} }

// ask sends a request that the API description does not contain.
func (s *server) ask(method, path string, headers ...string) http.Header {
	s.t.Helper()
	r := webtest.Request(s.t, s.base, method, path, nil)
	webtest.SetHeaders(r, headers...)
	resp, err := webtest.Transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	resp.Header.Set("Status", fmt.Sprint(resp.StatusCode))
	return resp.Header
}

// TestCORS walks all guest routes, with valid and invalid requests. Pages of the profile's origins can read each
// answer and its preflight; pages of other origins cannot.
func TestCORS(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]*guest.Profile{"hotel": hotel(), "shop": shop()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shared(t, profile)
			b := s.begin()
			fill := strings.NewReplacer("{propertyId}", property, "{itemId}", property, "{tenantId}", tenant, "{srsId}", "srs_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", "{country}", "AT", "{region}", "vienna", "{sessionId}", "x")
			routes := slices.Concat(httpapi.Routes(profile), httpapi.Routes(profile)[:1])
			routes[len(routes)-1].Label = "/nothing"
			for _, route := range routes {
				for _, cookie := range []string{"", "gms=" + b.cookie} {
					for origin, allowed := range map[string]bool{
						pageOrigin: true, "capacitor://localhost": true,
						"https://evil.example": false, "null": false, "": false, "https://www.example.com.evil.example": false, "http://www.example.com": false,
					} {
						s.walkOrigin(route.Method, api+fill.Replace(route.Label), cookie, origin, allowed)
					}
				}
			}
		})
	}
}

func (s *server) walkOrigin(method, path, cookie, origin string, allowed bool) {
	s.t.Helper()
	what := fmt.Sprint(method, " ", path, " from ", origin)
	h := s.ask(method, path, "Origin: "+origin, "Cookie: "+cookie)
	checkShared(s.t, what, h, origin, allowed)
	if origin != "" && !allowed && method != http.MethodGet && h.Get("Status") != "403" && h.Get("Status") != "404" {
		s.t.Errorf("%s: %s", what, h.Get("Status"))
	}
	p := s.ask(http.MethodOptions, path, "Origin: "+origin, "Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: idempotency-key")
	if p.Get("Status") == "404" { // a route of another profile
		return
	}
	checkShared(s.t, "preflight of "+what, p, origin, allowed)
	methods := strings.Split(p.Get("Access-Control-Allow-Methods"), ", ")
	if p.Get("Status") != "204" || slices.Contains(methods, method) != allowed || (p.Get("Access-Control-Max-Age") == "7200") != allowed ||
		strings.Contains(p.Get("Access-Control-Allow-Headers"), "Idempotency-Key") != allowed || p.Get("Set-Cookie") != "" {
		s.t.Errorf("preflight of %s: %v", what, p)
	}
}

func checkShared(t testing.TB, what string, h http.Header, origin string, allowed bool) {
	t.Helper()
	if !slices.Contains(h.Values("Vary"), "Origin") {
		t.Errorf("%s: Vary %q", what, h.Values("Vary"))
	}
	want := map[string]string{"Access-Control-Allow-Origin": "", "Access-Control-Allow-Credentials": ""}
	if allowed {
		want = map[string]string{"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true"}
	}
	for name, value := range want {
		if got := strings.Join(h.Values(name), ", "); got != value {
			t.Errorf("%s: %s: %q, want %q", what, name, got, value)
		}
	}
	if allowed != strings.Contains(h.Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("%s exposes %q", what, h.Get("Access-Control-Expose-Headers"))
	}
}

func TestNoCORS(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		h := s.ask(method, api+"/wishlist", "Origin: "+pageOrigin, "Access-Control-Request-Method: GET")
		if h.Get("Vary") != "" || h.Get("Access-Control-Allow-Origin") != "" || (h.Get("Status") == "405") != (method == http.MethodOptions) {
			t.Errorf("%s: %v", method, h)
		}
	}
}

func TestPagesOfTheSite(t *testing.T) {
	t.Parallel()
	for _, profile := range []*guest.Profile{hotel(), shop()} {
		s := shared(t, profile)
		b := s.begin()
		body := `{"locale":"de"}`
		b.check(b.send(http.MethodPatch, "/session/preferences", body, "Origin: "+pageOrigin, "Sec-Fetch-Site: same-site"), 200)
		b.check(b.send(http.MethodPatch, "/session/preferences", body, "Origin: "+pageOrigin, "Sec-Fetch-Site: cross-site"), 200)
		b.check(b.send(http.MethodPatch, "/session/preferences", body, "Origin: https://shop.example.com", "Sec-Fetch-Site: same-site"), 403, "cross-site")
		b.check(b.send(http.MethodPatch, "/session/preferences", body, "Sec-Fetch-Site: same-site"), 403, "cross-site")
	}
}

func TestCookieDomain(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	p.url = "https://api.example.com"
	s := serve(t, p)
	host := s.ask(http.MethodPost, api+"/session").Get("Set-Cookie")
	if !strings.HasPrefix(host, "__Host-gms=gms_") || !strings.Contains(host, "; Secure") || strings.Contains(host, "Domain") {
		t.Errorf("for one host: %s", host)
	}
	p = newParts(t) // same cookie secret
	p.url, p.profile = "https://api.example.com", shop()
	p.profile.CookieDomain = "example.com"
	s = serve(t, p)
	site := s.ask(http.MethodPost, api+"/session").Get("Set-Cookie")
	if !strings.HasPrefix(site, "__Secure-gms=gms_") || !strings.Contains(site, "; Domain=example.com;") || !strings.Contains(site, "; Secure") || !strings.Contains(site, "SameSite=Lax") {
		t.Errorf("for a domain: %s", site)
	}
	value, _, _ := strings.Cut(host, ";")
	moved := s.ask(http.MethodGet, api+"/session", "Cookie: "+value)
	if _, id, _ := strings.Cut(value, "="); moved.Get("Status") != "200" || !strings.HasPrefix(moved.Get("Set-Cookie"), "__Secure-gms="+id+";") {
		t.Errorf("a cookie from before: %v", moved)
	}
	value, _, _ = strings.Cut(site, ";")
	if again := s.ask(http.MethodGet, api+"/session", "Cookie: "+value); again.Get("Status") != "200" {
		t.Errorf("again: %v", again)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		app := &browser{server: s}
		first := app.send(http.MethodPost, "/session", "", "X-Session-Mode: bearer")
		app.check(first, 201)
		token := first.header.Get("X-Session-Token")
		send := func(status int, method, path, body string, parts ...string) answer {
			t.Helper()
			a := app.send(method, path, body, "Authorization: Bearer "+token, "Cookie: gms=x")
			app.check(a, status, parts...)
			if a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s %s sets a cookie", method, path)
			}
			if next := a.header.Get("X-Session-Token"); next != "" {
				token = next
			}
			return a
		}
		send(200, http.MethodPatch, "/session/preferences", `{"locale":"de"}`)
		send(200, http.MethodGet, "/session", "", `"locale":"de"`)
		before := token
		send(200, http.MethodPost, "/session/link", `{"token":"`+userToken(t, "u-1")+`"}`)
		send(200, http.MethodGet, "/session", "", `"userId":"u-1"`)
		send(204, http.MethodDelete, "/session/link", "")
		send(200, http.MethodGet, "/session", "", `"preferences":{}`)
		if token == before {
			t.Error("the token is the same after a sign-out")
		}
		token = "x"
		send(401, http.MethodGet, "/session", "", "session-required", "in Authorization: Bearer TOKEN", "X-Session-Mode: bearer")
		send(401, http.MethodPost, "/session/clear", "", "session-required") // starts a session
		send(204, http.MethodPost, "/session/clear", "")

		browser := s.begin()
		browser.check(browser.send(http.MethodGet, "/session", "", "Authorization: Basic eDp5"), 200) // sent by a proxy
		browser.check(browser.send(http.MethodGet, "/session", "", "Authorization: Bearer x"), 401)   // takes precedence over the cookie
		browser.check(browser.send(http.MethodGet, "/session", "", "X-Session-Mode: bearer"), 401)
	})
}
