package app

import (
	"net/http"
	"slices"
	"testing"

	"holdfast/internal/app/service"
)

// TestConsoleMenu checks that no section shows more than five pages before a click, and that Everyday pages exist.
func TestConsoleMenu(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	const most = 5
	for _, s := range a.console.Sections {
		all := 0
		for i := range s.Pages {
			if s.Pages[i].Listed {
				all++
			}
		}
		if len(s.Everyday) > most || len(s.Everyday) == 0 && all > most {
			t.Errorf("%s shows %d of %d pages", s.Title, len(s.Everyday), all)
		}
		for i, path := range s.Everyday {
			if slices.Contains(s.Everyday[:i], path) || !slices.ContainsFunc(s.Pages, func(p service.Page) bool { return p.Path == path && p.Listed }) {
				t.Errorf("%s has no page %q, or twice", s.Title, path)
			}
		}
	}
	if len(a.console.Sections) < 6 {
		t.Errorf("there are only %d sections", len(a.console.Sections))
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
