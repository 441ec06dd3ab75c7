package app

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSuggestions checks that the search field gets the first hits of each kind. Pages and settings match by any word.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o, viewer, stranger := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken), browse("")
	for _, s := range []*operator{o, viewer, stranger} {
		s.edit = func(r *http.Request) { r.Header.Set("HX-Request", "true") }
	}
	link := regexp.MustCompile(`<a role="option" id="suggestion-\d" aria-selected="false" tabindex="-1" href="([^"]*)">([^<]*)</a>`)
	suggest := func(s *operator, query string) (body string, options []string) {
		t.Helper()
		body = s.want(query, http.StatusOK, "", http.MethodGet, "/console/search?q="+url.QueryEscape(query), nil)
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			options = append(options, html.UnescapeString(found[2]+" "+found[1]))
		}
		return body, options
	}
	for query, want := range map[string]string{
		"quota": "Buckets › Quotas /console/buckets/quotas", "buck quot": "Buckets › Quotas /console/buckets/quotas", "listen": "server.admin_listen /console/settings?path=server.admin_listen",
		"requests": "server.max_requests /console/settings?path=server.max_requests",
	} {
		for _, s := range []*operator{o, viewer} {
			if _, options := suggest(s, query); !slices.Contains(options, want) {
				t.Errorf("%q suggests %q, not %q", query, options, want)
			}
		}
	}
	body, options := suggest(o, "s")
	if len(options) != 8 || !strings.Contains(body, "8 suggestions.") || !strings.Contains(body, ">Pages<") || !strings.Contains(body, ">Setting · Server<") || strings.Contains(body, "<html") {
		t.Errorf("s suggests %q\n%s", options, body)
	}
	for _, query := range []string{"", " ", strings.Repeat("a", 2000)} {
		if body, _ := suggest(o, query); body != "" {
			t.Errorf("%.20q: %s", query, body)
		}
	}
	for _, query := range []string{"<script>", "_", ".", "istener", "\x00"} {
		if body, options := suggest(o, query); !strings.Contains(body, "Nothing found.") || len(options) > 0 {
			t.Errorf("%q: %s", query, body)
		}
	}
	if status, body, h := stranger.do(http.MethodGet, "/console/search?q=s", nil); status != http.StatusUnauthorized || body != "" || h.Get("HX-Redirect") != "/console/sign-in?next=search%3Fq%3Ds" {
		t.Errorf("without a session: %d %v %s", status, h, body)
	}
}

func TestSearchForms(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	o := browse(a.Config().Server.AdminToken.Reveal())
	for _, query := range []string{"", "nothing-has-this-name"} {
		body := o.want(query, http.StatusOK, "What you can search for", http.MethodGet, "/console/search?q="+query, nil)
		n := 0
		for i := range a.console.Sections {
			s := &a.console.Sections[i]
			if s.Search == nil != (len(s.Finds) == 0) {
				t.Errorf("%s: a search and what it finds belong together", s.Title)
			}
			for _, f := range s.Finds {
				if n++; f.Example == "" || !strings.Contains(body, f.What) || !strings.Contains(body, f.Example) {
					t.Errorf("%s, %+v: not in\n%s", s.Title, f, body)
				}
			}
		}
		if n < 8 {
			t.Errorf("%d kinds of queries", n)
		}
	}
}
