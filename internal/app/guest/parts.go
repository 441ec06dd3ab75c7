package guest

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/outbox"
)

// parts are the opened service: the use cases by subject, and their shared parts.
type parts struct {
	// outbox keeps published events for guest.keep_events, and so can list and replay them.
	outbox outbox.Retaining
	hot    *hot
	clock  clock.Clock
	// degraded counts operations that continue without hot state.
	degraded guest.Degraded

	guests  *guest.Service
	tenants *tenants.Service
	// source is the catalogue without its caches; the demo needs its type.
	source    catalogue.Source
	catalogue *catalogue.Service
	telemetry *telemetry.Service
	retention *retention.Service
	// handoffs is nil until open has called openHandoffs, or if that failed.
	handoffs *handoffParts
	feed     *httpapi.DemoFeed // nil without the demo

	// deleted is service.Deps.Deleted.
	deleted func(begun time.Time, services ...string) (service.Deleted, error)
}

// newParts connects the parts. Nothing runs, and no database is read, until start.
func (s *Guest) newParts(d *service.Deps, st backend.Store, hot *hot) *parts {
	p := &parts{deleted: d.Deleted, outbox: st.Outbox(), hot: hot, clock: d.Clock, degraded: hot.observe(d.Metrics)}
	var fetcher catalogue.Fetcher
	p.source, fetcher = s.openCatalogue()
	profile := s.cfg.profile()
	sessions := guest.Options{
		Store: st, Hot: hot.Hot, Cookies: guest.NewCookies(s.cfg.CookieSecret, s.cfg.OldCookieSecrets), Clock: d.Clock,
		Profile: profile, Users: s.cfg.users(), Processes: s.cfg.Processes, Degraded: p.degraded,
		AddressLimited: (&sharedAddress{log: d.Log, clock: d.Clock}).limited,
	}
	views := catalogue.Options{Profile: profile, Fetcher: fetcher, Source: p.source, Campaign: s.cfg.Campaign, Clock: d.Clock, Hot: hot.Hot, Degraded: p.degraded}
	if hot.local != nil { // avoids a non-nil interface with a nil pointer
		sessions.Local, views.Local = hot.local, hot.local
	}
	if kept, ok := st.(keeping); ok && hot.keeps {
		sessions.Keeper, sessions.Kept = hot.memory, kept
	}
	sessions.Limits = s.cfg.limits()
	observeCatalogue(d.Metrics, s.cfg.upstreams(), &views)
	p.guests = guest.NewService(sessions)
	p.tenants = tenants.New(tenants.Options{Store: st, Hot: hot.Hot, Clock: d.Clock, Types: s.cfg.Types, Degraded: p.degraded})
	views.Suspended = p.tenants.Suspended
	p.catalogue = catalogue.New(views)
	p.telemetry = telemetry.New(telemetry.Options{Guests: p.guests, Store: st, Clock: d.Clock, Samples: s.cfg.SampleRates, Recorded: countTelemetry(d.Metrics)})
	p.retention = retention.New(retention.Options{Store: st, Clock: d.Clock, Expired: s.cfg.SweepAfter, Kept: kept(&s.cfg)})
	if s.demo() {
		p.feed = &httpapi.DemoFeed{}
		p.guests.OnErase(p.feed.Forget)
	}
	return p
}

// reload applies the settings tagged reload. The wait for a slot, which it also gets, is not used.
func (p *parts) reload(next service.Config, _ time.Duration) {
	c := next.(*Config)
	p.guests.SetLimits(c.limits())
	p.telemetry.SetSamples(c.SampleRates)
	p.retention.Keep(kept(c))
	if p.handoffs.bots != nil {
		p.handoffs.bots.Reload(c.Bots)
	}
}

// limits returns nil, which means unlimited, if rate limits are off.
func (c *Config) limits() guest.Limits {
	if !c.RateLimits {
		return nil
	}
	return c.Rates.Limits()
}

// kept returns how long published events are kept, by retention class.
func kept(c *Config) retention.Kept { return retention.Kept{Events: c.Keep, Audit: c.KeepAudit} }

// start returns a function that first calls stop, which ends other work.
func (p *parts) start(ctx context.Context, stop func() error) func() error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { p.hot.run(ctx) })
	all.Go(func() {
		guest.Run(ctx, p.guests.Repair, p.telemetry.Repair, p.handoffs.Repair, p.tenants.Repair, p.tenants.EndBriefs)
	})
	return func() error {
		err := stop()
		cancel()
		all.Wait()
		last, end := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer end()
		// Requests only note these in memory. The server's context is done, so this needs another.
		return errors.Join(err, p.guests.FlushSeen(last), p.guests.KeepHot(last), p.telemetry.Flush(last), p.handoffs.FlushRefusals(last))
	}
}
