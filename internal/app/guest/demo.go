package guest

import (
	"context"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/outbox"
	"holdfast/internal/web"
)

// sites returns the function that finds a tenant's booking site. The demo's tenants get a page of this server, unless a
// site is configured for them.
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

// guide is the file that the status page links to.
const guide = "docs/guest.md"

// demo reports whether the built-in catalogue is served, because no upstream is configured. Only the hotel profile
// provides it.
func (s *Guest) demo() bool { return s.cfg.Profile == guest.Hotel.Name && s.cfg.Upstreams.BuiltIn() }

// mountDemo adds the demo's pages, if it is served, and in any case the hints for users. It comes after open has filled
// in the parts.
func (s *Guest) mountDemo(opened *service.Opened, h *httpapi.Handler) {
	opened.Client = func(string) service.Client {
		return service.Client{Title: "Guest", Text: "Serves sessions, lists and handoffs for your site's guests", Guide: guide}
	}
	opened.Hint = func(base string) service.Hint {
		return service.Hint{Text: "For guests, the API describes itself at", Lines: []string{base + "/bff/consumer/v1/openapi.json"}}
	}
	if !s.demo() {
		return
	}
	opened.Client = func(base string) service.Client {
		return service.Client{Title: "Guest", Text: "The guest service demo", Address: base + httpapi.DemoPage, Guide: guide}
	}
	opened.Hint = func(base string) service.Hint {
		return service.Hint{Text: "For booking site guests, try the demo in a browser", Lines: []string{base + httpapi.DemoPage}}
	}
	builtIn := s.opened.source.(*builtin.Catalogue)
	demo := &httpapi.Demo{
		Handler: h, Tenants: s.opened.tenants, Feed: s.opened.feed, HotState: s.opened.hot.name(),
		// Do not suspend a tenant with its own booking site, which is in use.
		Suspends: func(tenant string) bool { return builtIn.HasTenant(tenant) && s.cfg.Site(tenant).URL == "" },
	}
	opened.Mounts = append(opened.Mounts, service.Mount{Listener: service.Main, Paths: []string{httpapi.DemoPage}, Mount: web.Mount{
		Owns: httpapi.OwnsDemo, Service: web.Service{Serve: demo.Serve, Error: httpapi.WriteError, Route: httpapi.LabelDemo, Routes: httpapi.DemoRoutes()},
	}})
}

// shownSink shows published events on the demo's page, after the real sink has accepted them.
type shownSink struct {
	outbox.Sink
	feed  *httpapi.DemoFeed
	clock clock.Clock
}

// Publish adds nothing to the page if the sink refuses the events, because they are offered again.
func (s shownSink) Publish(ctx context.Context, events []outbox.Event) error {
	err := s.Sink.Publish(ctx, events)
	if err != nil {
		return err
	}
	now := s.clock().UTC()
	for i := range events {
		e := &events[i]
		s.feed.Published(e.Owner, guest.Event{ID: guest.ID(e.Name), Type: e.Topic, Payload: e.Payload, At: e.At.UTC()}, now)
	}
	return nil
}
