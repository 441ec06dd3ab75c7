package app

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestConsoleMenu checks that the navigation has the entries in the users' words, that each has at most seven lines, and
// that every page without values is in the menu. Pages about a bucket are its tabs, also if they work without values.
func TestConsoleMenu(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	o := browse(a.Config().Server.AdminToken.Reveal())
	const most = 7
	placed := map[string]int{}
	for _, s := range a.console.Sections {
		for _, m := range s.Menu {
			for _, path := range m.Pages {
				placed[s.Name+"/"+path]++
			}
		}
		for i := range s.Pages {
			pg := &s.Pages[i]
			isOfBucket := s.Name == "buckets" && slices.Contains([]string{"lifecycle", "policy", "notifications"}, pg.Path)
			if n := placed[s.Name+"/"+pg.Path]; pg.Listed && n != 1 && !isOfBucket || !pg.Listed && n > 0 {
				t.Errorf("%s: the page %q is in %d lines of the menu", s.Title, pg.Path, n)
			}
			delete(placed, s.Name+"/"+pg.Path)
		}
	}
	if len(placed) > 0 {
		t.Errorf("the menu names pages that do not exist: %v", placed)
	}
	page := o.want("overview", http.StatusOK, "", http.MethodGet, "/console/", nil)
	_, nav, _ := strings.Cut(page, `<nav aria-label="Console">`)
	nav, _, _ = strings.Cut(nav, "</nav>")
	var entries []string
	for _, found := range regexp.MustCompile(`</svg>([^<]+)</(?:summary|a)>`).FindAllStringSubmatch(nav, -1) {
		entries = append(entries, found[1])
	}
	if want := []string{"Overview", "Firefox Sync", "Records", "Buckets", "Guests", "Activity", "Protection", "Settings"}; !slices.Equal(entries, want) {
		t.Errorf("the entries are %q, want %q", entries, want)
	}
	for i, lines := range strings.Split(nav, "<details")[1:] {
		if n := strings.Count(lines, "<li>"); n < 2 || n > most {
			t.Errorf("entry %d has %d lines", i, n)
		}
	}
}

func TestConsoleServiceOff(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=false")
	o := browse(a.Config().Server.AdminToken.Reveal())
	for _, page := range []string{"guest", "guest/", "guest/sessions"} {
		o.want(page, http.StatusNotFound, "The service guest is off. To turn it on, set guest.enabled = true", http.MethodGet, "/console/"+page, nil)
	}
}
