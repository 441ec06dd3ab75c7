package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// TestConsole opens the pages of the console in Chromium on the screen of a small phone, and some on
// a large one, with texts that would be scripts if a page did not escape them.
func TestConsole(t *testing.T) {
	t.Parallel()
	b, axe := chromium.Start(t), chromium.NewAxe(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true")
	const tenant, install, hostile = "7e000000-0000-4000-8000-000000000001", "7e000000-0000-4000-8000-000000000011", `"><script>alert(1)<img src=x onerror=alert(2)>`
	token := strings.TrimSpace(s.Verb("ext", "token", "--tenant", tenant, "--install", install, "--namespace", "settings=rw"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/ext/v1/installs/"+install+"/namespaces/settings/records/"+url.PathEscape(hostile), strings.NewReader(`{"value":"</script><b>"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
	s.Verb("sync", "user", "deny", "0123456789abcdef0123456789abcdef", "--note", hostile)

	console := s.Admin + "/console/"
	p := b.Open(t, console)
	chromium.Run[bool](t, p, `document.cookie = arguments[0] + '; path=/'; return true`, consoleCookie(t, s))
	p.Go(t, console)
	pages := chromium.Run[[]string](t, p, `return all('header nav a').map(a => a.href)`)
	if len(pages) < 15 {
		t.Errorf("the navigation has %q", pages)
	}
	place := "?tenant=" + tenant + "&install=" + install + "&namespace=settings"
	record := console + "extstorage/record" + place + "&key=" + url.QueryEscape(hostile)
	pages = append(pages, console+"extstorage/tenant"+place, console+"extstorage/install"+place, console+"extstorage/records"+place, record,
		console+"extstorage/schemas"+place, console+"tokenserver/account?account=0123456789abcdef0123456789abcdef", console+"buckets/account?account=main")
	for width, pages := range map[int][]string{1200: {console, record}, 320: pages} {
		p.Resize(t, width, 700)
		for _, page := range pages {
			p.Go(t, page)
			if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s is %d pixels wide on a screen of %d", page, wide, width)
			}
			if elements := chromium.Run[int](t, p, `return all('main b, main img, main script').length + (all('h1').length - 1)`); elements != 0 {
				t.Errorf("%s has elements of a text", page)
			}
		}
	}
	for _, page := range []string{console, record, console + "tokenserver/access"} {
		p.Go(t, page)
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%s: %s", page, v)
		}
	}
	p.Go(t, record)
	chromium.Run[bool](t, p, `return !!await until(() => !$('[data-copy]').hidden)`) // the script runs
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("problems of the pages:\n%s", strings.Join(problems, "\n"))
	}
}

// consoleCookie signs in and returns the cookie of the session.
func consoleCookie(t *testing.T, s *binary.Server) string {
	t.Helper()
	form := url.Values{"token": {secretOf(t, s, "admin_token")}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Admin+"/console/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", s.Admin)
	resp, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cookie, _, found := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if !found {
		t.Fatal(resp.Status)
	}
	return cookie
}
