package guest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/catalogue/upstream"
)

// openCatalogue returns the source of hotels and other items. fetcher is nil for the built-in demo, whose items are not
// fetched.
func (s *Guest) openCatalogue() (catalogue.Source, catalogue.Fetcher) {
	if s.demo() {
		return builtin.New(), nil
	}
	client := upstream.New(s.cfg.Upstreams)
	return client, client
}

// upstreams returns the profile's catalogue services. The hotel profile has its own settings section, guest.upstreams.
func (c *Config) upstreams() []guest.Upstream {
	if c.Profile == guest.Hotel.Name {
		return c.Upstreams.Hotel()
	}
	return c.profile().Upstreams
}

// whatCatalogue is the checked thing in findings, for each upstream.
const whatCatalogue = "guest catalogue"

// probeCatalogue asks each upstream, ordered by name.
func (s *Guest) probeCatalogue(ctx context.Context) (findings []service.Finding) {
	if s.demo() {
		return []service.Finding{{State: service.OK, What: whatCatalogue, Says: "the built-in catalogue of invented hotels"}}
	}
	at := "guest.upstreams."
	if s.cfg.Profile != guest.Hotel.Name {
		at = "guest.profiles." + s.cfg.Profile + ".upstreams."
	}
	for _, u := range slices.SortedFunc(slices.Values(s.cfg.upstreams()), func(a, b guest.Upstream) int { return strings.Compare(a.Name, b.Name) }) {
		findings = append(findings, probeUpstream(ctx, u, at+u.Name))
	}
	return findings
}

// probeUpstream accepts any answer below 500, also 404 and 405: the URL is only the beginning of the requested URLs.
// setting is named in the remedy.
func probeUpstream(ctx context.Context, u guest.Upstream, setting string) service.Finding {
	f := service.Finding{State: service.OK, What: whatCatalogue, Says: u.Name + " at " + u.URL}
	if u.URL == "" {
		f.State, f.Says, f.Fix = service.Warning, u.Name+" is not set: its requests get 503", "set "+setting
		return f
	}
	status, err := service.Fetch(ctx, u.URL)
	switch {
	case err != nil:
		f.State, f.Says, f.Fix = service.Wrong, err.Error(), "start the service, or correct "+setting
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		f.State, f.Says, f.Fix = service.Wrong, f.Says+" answers "+http.StatusText(status), "see its log"
	}
	return f
}
