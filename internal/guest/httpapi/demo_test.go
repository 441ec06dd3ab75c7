package httpapi_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/guest/httpapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// TestDemo: the page loads its own files only, and its booking site consumes a handoff once.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	demo := &httpapi.Demo{Handoffs: s.handoffs}
	base := webtest.Serve(t, web.Service{Serve: demo.Serve, Error: httpapi.WriteError, Route: httpapi.LabelDemo}, web.Options{}).URL
	send := func(method, path, body string, headers ...string) (int, http.Header, string) {
		t.Helper()
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		r := webtest.Request(t, base, method, path, content)
		webtest.SetHeaders(r, headers...)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	_, h, page := send(http.MethodGet, "/guest/demo", "")
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || h.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%v", h)
	}
	for _, inline := range []string{`<script>`, `<style`, ` style=`, ` onclick=`, `http://`, `https://`} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %s", inline)
		}
	}
	for _, file := range regexp.MustCompile(`(?:src|href)="(demo/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if status, h, text := send(http.MethodGet, "/guest/"+file[1], ""); status != 200 || text == "" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file[1], status, h)
		}
	}
	for path, status := range map[string]int{"/guest/demo/": 404, "/guest/demo/index.html": 404, "/guest/demo/../x": 404, "/guest/demo/arrivals": 405} {
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
