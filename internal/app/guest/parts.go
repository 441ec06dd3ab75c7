package guest

import (
	"context"
	"errors"
	"sync"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/guest"
)

// parts are the open parts of the service, which share a database and a hot state.
type parts struct {
	store    guest.WholeStore
	hot      *hot
	clock    clock.Clock
	degraded guest.Degraded

	guests    *guest.Service
	tenants   *guest.TenantService
	source    guest.Catalogue
	catalogue *guest.CatalogueService
	telemetry *guest.TelemetryService
	retention *guest.RetentionService
	handoffs  *handoffs
}

// newParts returns all parts but the handoffs.
func (s *Guest) newParts(d *service.Deps, st guest.WholeStore, hot *hot, db *engine.Database) *parts {
	p := &parts{store: st, hot: hot, clock: d.Clock, degraded: hot.observe(d.Metrics), source: s.openCatalogue()}
	sessions := guest.Options{
		Store: st, Hot: hot.WholeHot, Cookies: guest.NewCookies(s.cfg.CookieSecret, s.cfg.OldCookieSecrets), Clock: d.Clock,
		Processes: s.cfg.Processes, Degraded: p.degraded,
		Backups: func() ([]guest.Backup, error) { return s.backups(d, db) },
	}
	views := guest.CatalogueOptions{Source: p.source, Campaign: s.cfg.Campaign, Clock: d.Clock, Hot: hot.WholeHot, Degraded: p.degraded}
	if hot.local != nil { // an interface with a nil pointer is not nil
		sessions.Local, views.Local = hot.local, hot.local
	}
	if s.cfg.RateLimits {
		sessions.Limits = s.cfg.Rates.Limits()
	}
	observeCatalogue(d.Metrics, &views)
	p.guests = guest.NewService(sessions)
	p.tenants = guest.NewTenants(guest.TenantOptions{Store: st, Hot: hot.WholeHot, Clock: d.Clock, Types: s.cfg.TenantTypes, Degraded: p.degraded})
	views.Suspended = p.tenants.Suspended
	p.catalogue = guest.NewCatalogue(views)
	p.telemetry = guest.NewTelemetry(guest.TelemetryOptions{Guests: p.guests, Store: st, Clock: d.Clock, Samples: s.cfg.SampleRates, Recorded: countTelemetry(d.Metrics)})
	p.retention = &guest.RetentionService{Store: st, Clock: d.Clock, Expired: s.cfg.SweepAfter, Events: s.cfg.Keep, KeepAudit: s.cfg.KeepAudit}
	return p
}

// start runs the background work. stop, of other work, is called before it is stopped.
func (p *parts) start(ctx context.Context, stop func() error) func() error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { p.hot.run(ctx) })
	all.Go(func() { guest.Run(ctx, p.guests.Repair, p.telemetry.Repair, p.handoffs.Repair, p.tenants.Repair) })
	return func() error {
		err := stop()
		cancel()
		all.Wait()
		last, end := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer end()
		return errors.Join(err, p.guests.FlushSeen(last), p.telemetry.Flush(last), p.handoffs.FlushRefusals(last))
	}
}
