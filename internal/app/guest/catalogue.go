package guest

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/catalogue/upstream"
)

// openCatalogue returns the catalogue that the configuration selects.
func (s *Guest) openCatalogue() catalogue.Source {
	if s.demo() {
		return builtin.New()
	}
	return upstream.New(s.cfg.Upstreams)
}

const whatCatalogue = "guest catalogue"

// probeCatalogue checks the upstreams for `holdfast check`.
func (s *Guest) probeCatalogue(ctx context.Context) (found []service.Finding) {
	if s.cfg.Profile != guest.Hotel.Name {
		return nil
	}
	if s.cfg.Upstreams.BuiltIn() {
		return []service.Finding{{State: service.OK, What: whatCatalogue, Says: "the built-in catalogue of invented hotels"}}
	}
	urls := s.cfg.Upstreams.URLs()
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		found = append(found, probeUpstream(ctx, name, urls[name]))
	}
	return found
}

// probeUpstream checks one service: any answer but that of a server that fails will do.
func probeUpstream(ctx context.Context, name, address string) service.Finding {
	f := service.Finding{State: service.OK, What: whatCatalogue, Says: name + " at " + address}
	if address == "" {
		f.State, f.Says, f.Fix = service.Warning, name+" is not set: its requests get 503", "set guest.upstreams."+name
		return f
	}
	status, err := service.Fetch(ctx, address)
	switch {
	case err != nil:
		f.State, f.Says, f.Fix = service.Wrong, err.Error(), "start the service, or correct guest.upstreams."+name
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		f.State, f.Says, f.Fix = service.Wrong, f.Says+" answers "+http.StatusText(status), "see its log"
	}
	return f
}
