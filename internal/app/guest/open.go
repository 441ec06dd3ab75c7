// Package guest integrates the guest service into the server.
package guest

import (
	"context"
	"errors"

	"holdfast/internal/app/service"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/outbox"
	"holdfast/internal/web"
)

// Name is the configuration section, the label in logs and metrics, and the SQLite file's name.
const Name = "guest"

// Guest is the service, opened or not.
type Guest struct {
	// cfg is the section that the configuration fills in before the service is opened.
	cfg      Config
	backends []engine.Backend[backend.Store]
	brokers  sinks.Brokers // see UseBrokers
	// opened is nil while the service is disabled or not yet open.
	opened *parts
}

// New returns the service. backends are those on database servers; SQLite is built in.
func New(backends ...engine.Backend[backend.Store]) *Guest {
	onSQLite := engine.OnSQLite(sqlite.Migrations, func(db *sqlitedb.DB, o engine.StoreOptions) backend.Store {
		return sqlite.New(db, o.Clock, o.Waker)
	})
	return &Guest{cfg: defaultConfig(), backends: append([]engine.Backend[backend.Store]{onSQLite}, backends...)}
}

// UseBrokers sets the message brokers that events can be sent to and received from. Call it before the service is opened.
func (s *Guest) UseBrokers(b sinks.Brokers) { s.brokers = b }

// Service describes the service to the server.
func (s *Guest) Service() service.Service {
	return service.Service{
		Name: Name, Doc: "Guest: anonymous sessions, wishlists, handoffs to booking sites, and their events, for a consumer front end.",
		Config: &s.cfg, Check: s.check, Rules: s.rules, ProtocolPaths: []string{"/bff/consumer/v1"}, Probe: s.probe, Open: s.open, Commands: s.commands, Operations: s.operations(), Tables: tables,
		Credentials: []service.Credential{
			{Counted: service.Counted{Of: "signed-in browser", Table: "bff_consumer_user_sessions", Where: "ended_at IS NULL"},
				Again: []string{"user-sessions/end", "user-sessions/end-all"}},
			{Counted: service.Counted{Of: "guest session", Table: "bff_consumer_session_seen"}, Again: []string{"sessions/erase"}},
			{Counted: service.Counted{Of: "suspended tenant", Table: "bff_consumer_tenant_suspended_cache", Where: "suspended"}, Again: []string{"tenants/suspend"}},
		},
		Secrets: []service.Secret{
			{Name: "cookie_secret", Setting: &s.cfg.CookieSecret, Old: &s.cfg.OldCookieSecrets, Bound: true},
			{Name: "handoff_secret", Setting: &s.cfg.HandoffSecret, Old: &s.cfg.OldHandoffSecrets, Bound: true},
		},
	}
}

// check disables the service on public servers unless it is explicitly enabled: guests need no account, and their data
// is stored.
func (s *Guest) check(settings service.Settings) conf.Problems {
	if settings.Public != "" && settings.Origin("enabled") == "default" {
		s.cfg.Enabled, s.cfg.whyPublic = false, settings.Public
	}
	return nil
}

// open makes the store and all parts. After an error, it returns the parts that are open already, so that the server
// can close them.
func (s *Guest) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	events := newEvents(s.cfg.Events, s.cfg.source(s.cfg.Events.Source))
	events.brokers = s.brokers
	st, db, err := engine.Open(ctx, d.Engines, Name, engine.Settings{
		Database: s.cfg.Database, Store: engine.StoreOptions{Clock: d.Clock, Waker: events.waker},
	}, s.backends...)
	if err != nil {
		return nil, err
	}
	if db.Embedded() {
		events.share = outbox.Partitions // only this process publishes events from a SQLite file
	}
	hot, err := s.openHot(ctx, d, st)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p := s.newParts(d, st, hot)
	events.feed = p.feed
	receive := countReceived(d.Metrics, d.Log, p.tenants.Receive)
	reachable := db.Ready(st.Ping)
	opened := &service.Opened{
		Databases: []*engine.Database{db},
		Jobs:      s.sweepJobs(p.retention, st),
		Ready: func(ctx context.Context) error {
			if err := reachable(ctx); err != nil {
				return err
			}
			return hot.settle(ctx, db.Rows(nil))
		},
		Caches: hot.caches,
		Start: func(ctx context.Context) (func() error, error) {
			// An error means that the database is not ready yet: the first KeepHot tries again.
			_ = p.guests.RestoreHot(ctx)
			// Before events are published or received: after a restore, this voids earlier handoffs.
			if err := p.handoffs.start(ctx); err != nil {
				return nil, err
			}
			stop, err := events.start(ctx, d, st, receive)
			if err != nil {
				return nil, err
			}
			return p.start(ctx, stop), nil
		},
		Refusals: refusals,
	}
	s.opened = p
	if p.handoffs, err = s.openHandoffs(d, p, st, db); err != nil {
		return opened, err
	}
	opened.AfterRestore = []service.RestoreStep{p.handoffs.afterRestore, {
		Doc: "separating the hot state in Redis, because it may be newer than the database",
		Run: func(ctx context.Context, _ service.Restored) error { return newEpoch(ctx, db.Rows(nil)) },
	}, {
		Doc: "forgetting guests' preferences, attributes, searches and recently viewed items, because guests may have cleared them since",
		Run: func(ctx context.Context, _ service.Restored) error { return forgetHot(ctx, st) },
	}}
	h := &httpapi.Handler{
		Guests: p.guests, Catalogue: p.catalogue, Telemetry: p.telemetry, Handoffs: p.handoffs.Service, Bots: p.handoffs.bots, NestErrors: s.cfg.NestErrors,
	}
	opened.Mounts = []service.Mount{
		{Listener: service.Main, Paths: []string{"/bff/consumer/v1/"}, Mount: web.Mount{
			Owns: httpapi.Owns, Service: web.Service{Serve: h.Serve, Error: h.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(p.guests.Profile()), Conditions: h.Conditions},
		}},
		p.handoffs.mount(d.Metrics),
		mountEvents(&httpapi.EventReceiver{Parse: parseEvent, Receive: receive, Tokens: p.handoffs.tokens, Clock: d.Clock}),
	}
	opened.Settle = func(ctx context.Context) error {
		return errors.Join(hot.settle(ctx, db.Rows(nil)), p.handoffs.settle(ctx))
	}
	opened.Reload = p.reload
	s.mountDemo(opened, h)
	opened.Console = s.console()
	return opened, nil
}

var refusals = service.Refusals{
	{Err: guest.ErrWishlistFull, Reason: "wishlist-full"},
	{Err: guest.ErrKeyReused, Reason: "idempotency-key-reused"},
	{Err: guest.ErrInFlight, Reason: "in-flight"},
	{Err: bots.ErrChallenge, Reason: "challenge-required"},
	{Err: bots.ErrHardBlock, Reason: "hard-block"},
	{Err: tenants.ErrSuspended, Reason: "tenant-suspended"},
	{Err: handoffs.ErrConsumed, Reason: "handoff-consumed"},
	{Err: handoffs.ErrVoided, Reason: "handoff-voided"},
	{Err: handoffs.ErrExpired, Reason: "handoff-expired"},
	{Err: handoffs.ErrToken, Reason: "handoff-token"},
	{Err: handoffs.ErrBinding, Reason: "handoff-browser"},
}
