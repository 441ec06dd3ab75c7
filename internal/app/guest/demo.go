package guest

import (
	"holdfast/internal/app/service"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/web"
)

// sites returns the booking sites of tenants. Those of the built-in catalogue have the demo,
// unless the configuration names another one.
func (s *Guest) sites(shown catalogue.Source) func(tenant string) handoffs.BookingSite {
	builtIn, ok := shown.(*builtin.Catalogue)
	if !ok {
		return s.cfg.Site
	}
	return func(tenant string) handoffs.BookingSite {
		site := s.cfg.Site(tenant)
		if site.URL == "" && builtIn.HasTenant(tenant) {
			site.URL = httpapi.DemoSite
		}
		return site
	}
}

const guide = "docs/guest.md"

// mountDemo adds the demo, if the catalogue is the built-in one.
func (s *Guest) mountDemo(opened *service.Opened) {
	opened.Client = func(string) service.Client {
		return service.Client{Title: "Guest", Text: "Serves the guests of booking sites", Guide: guide}
	}
	if !s.cfg.Upstreams.BuiltIn() {
		return
	}
	opened.Client = func(base string) service.Client {
		return service.Client{Title: "Guest", Text: "The demo of the service for guests of booking sites", Address: base + httpapi.DemoSite, Guide: guide}
	}
	opened.Hint = func(base string) service.Hint {
		return service.Hint{Text: "For guests of booking sites, try the demo in a browser", Lines: []string{base + httpapi.DemoSite}}
	}
	demo := &httpapi.Demo{Handoffs: s.opened.handoffs.Service}
	opened.Mounts = append(opened.Mounts, service.Mount{Listener: service.Main, Paths: []string{httpapi.DemoSite}, Mount: web.Mount{
		Owns: httpapi.OwnsDemo, Service: web.Service{Serve: demo.Serve, Error: httpapi.WriteError, Route: httpapi.LabelDemo},
	}})
}
