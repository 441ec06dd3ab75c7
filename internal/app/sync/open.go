// Package sync makes Firefox Sync storage a service of the server.
package sync

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/sweep"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/httpapi"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/web"
	"holdfast/internal/web/dockerflow"
)

// Name is the configuration section, the label in logs and metrics, and the SQLite file's name.
const Name = "syncstorage"

// Storage is the service before and after it is opened.
type Storage struct {
	// cfg is the section that the configuration fills in before the service is opened; fitSpanner adjusts it.
	cfg     syncstorage.Config
	deps    *service.Deps
	keyring *tokenlib.Keyring
	// opened is nil while the service is disabled or not yet open.
	opened *syncstorage.Service

	comparer *syncstorage.Comparer
	revoked  Revocations // nil: no tokens are revoked
	backends []engine.Backend[syncstorage.Store]
}

// Revocations knows the owners with revoked, unexpired tokens.
type Revocations interface {
	// Has is called for each request, so it must not wait.
	Has(o syncstorage.Owner) bool

	// Watch gets the storage database, which may also contain another server's accounts. stop is called when the storage
	// is closed.
	Watch(ctx context.Context, db *engine.Database, d *service.Deps) (stop func() error)
}

// New returns the service. backends are those on database servers; SQLite is built in.
func New(backends ...engine.Backend[syncstorage.Store]) *Storage {
	onSQLite := engine.OnSQLite(sqlite.Migrations, func(db *sqlitedb.DB, _ engine.StoreOptions) syncstorage.Store { return sqlite.New(db) })
	return &Storage{cfg: syncstorage.DefaultConfig(), backends: append([]engine.Backend[syncstorage.Store]{onSQLite}, backends...)}
}

// RefuseRevoked must be called before the service is opened.
func (s *Storage) RefuseRevoked(r Revocations) { s.revoked = r }

// Opened returns the opened service, or nil. The tokenserver's links use it.
func (s *Storage) Opened() *syncstorage.Service { return s.opened }

// Now returns the time for requests that begin now. The service must be open.
func (s *Storage) Now() syncstorage.Timestamp { return syncstorage.At(s.deps.Clock()) }

// Clock returns the server's clock. The service must be open.
func (s *Storage) Clock() clock.Clock { return s.deps.Clock }

// Engine returns the configured engine; false if the service is disabled or its settings are invalid.
func (s *Storage) Engine() (engine.Kind, bool) {
	t, err := engine.Parse(s.cfg.DatabaseURL, "", engine.SQLite, engine.Postgres, engine.Spanner)
	return t.Kind, err == nil && s.cfg.Enabled
}

// onSpanner returns false if the service is disabled.
func (s *Storage) onSpanner() bool {
	kind, ok := s.Engine()
	return ok && kind == engine.Spanner
}

// Service describes the service to the server. Its Aliases are the environment variables of syncstorage-rs.
func (s *Storage) Service() service.Service {
	return service.Service{
		Name: Name, Doc: "Firefox Sync storage: browser records.",
		Config: &s.cfg, Check: s.checkLimits, Rules: s.rules, ProtocolPaths: []string{"/1.5"}, Open: s.open, Commands: s.commands, Operations: s.operations(),
		LargestRequest: func() int64 { return httpapi.LargestRequest(s.cfg.Limits) },
		Tables:         tables,
		Import:         &service.Import{Of: Name, Flag: "from", Doc: "`URL` of syncstorage-rs's storage database", Open: s.openMozilla},
		Secrets:        []service.Secret{service.MasterSecret}, // verifies tokenserver tokens
		Aliases: []conf.Alias{
			{Env: "SYNC_SYNCSTORAGE__DATABASE_USE_TEST_TRANSACTIONS", Note: "only Mozilla's tests use it"},
			{Env: "SYNC_SYNCSTORAGE__STATSD_LABEL", Note: "Prometheus scrapes the admin listener instead"},
			{Env: "SYNC_SYNCSTORAGE__GLEAN_ENABLED", Note: "no telemetry is sent"},
			{Env: "SYNC_SYNCSTORAGE__LBHEARTBEAT_*", Note: "the server does not stop by itself"},
			{Env: "SYNC_SYNCSTORAGE__GCS_*", Note: "payloads in Google Cloud Storage are not supported"},
			{Env: "SPANNER_EMULATOR_HOST", Path: "syncstorage.spanner_emulator_host"}, // Google's own name for it
			{Env: "SYNC_SYNCSTORAGE__LIMITS__*", Path: "syncstorage.limits.*"},
			{Env: "SYNC_SYNCSTORAGE__*", Path: "syncstorage.*"},
		},
	}
}

// open makes the store, the service and its handlers. After an error, it returns the parts that are open already, so
// that the server can close them.
func (s *Storage) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	s.deps = d
	var err error
	if s.keyring, err = tokenlib.NewKeyring(d.Server.MasterSecrets...); err != nil {
		return nil, err
	}
	open := engine.Settings{Database: s.cfg.Database}
	if s.onSpanner() {
		open.Spanner = s.spannerSettings()
	}
	store, db, err := engine.Open(ctx, d.Engines, Name, open, s.backends...)
	if err != nil {
		return nil, err
	}
	opened := &service.Opened{}
	if s.revoked != nil {
		opened.Start = func(ctx context.Context) (func() error, error) { return s.revoked.Watch(ctx, db, d), nil }
	}
	opened.Databases = []*engine.Database{db}
	opened.AfterRestore = append(opened.AfterRestore, service.RestoreStep{
		Doc: "ending open batches, because they may lack acknowledged records",
		Run: func(ctx context.Context, _ service.Restored) error { return store.EndBatches(ctx) },
	})
	_, _, connections := db.Connections()
	s.opened, err = syncstorage.NewService(syncstorage.Options{
		Store: store, Config: s.cfg, Clock: d.Clock, Connections: connections, OverQuota: countOverQuota(d),
	})
	if err != nil {
		return opened, err
	}
	h := &httpapi.Handler{Service: s.opened, Keyring: s.keyring, Clock: d.Clock, TimeSkew: s.cfg.HawkTimeSkew, Backoff: d.Server.Backoff}
	if s.revoked != nil {
		h.Revoked = s.revoked.Has
	}
	opened.Mounts = []service.Mount{{Listener: service.Main, Mount: web.Mount{
		Owns: httpapi.Owns, Service: web.Service{Serve: h.Serve, Error: h.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions},
	}}}
	opened.Ready = db.Ready(s.opened.Ping)
	opened.Console = &service.Console{Title: "Firefox Sync", Icon: "sync", Menu: []service.MenuItem{
		{Title: "Browser comparisons", Pages: []string{"comparisons"}, Later: true}, {Title: "Storage tokens", Pages: []string{"tokens"}, Later: true},
		{Under: service.MenuActivity, Title: "Background jobs", Pages: []string{"runs"}},
	}, Counts: []service.Counted{
		{Of: "collection", Table: "user_collections", Where: "collection_id <> 0"},
		{Of: "record", Table: "user_collections", Where: "collection_id <> 0", Sum: "count"},
	}}
	opened.Refusals = refusals
	opened.Quota = func() dockerflow.Quota {
		quota := s.opened.Quota()
		return dockerflow.Quota{Enabled: quota.Collection > 0 || quota.User > 0, Size: quota.Collection, User: quota.User}
	}
	opened.Reload = func(next service.Config, _ time.Duration) { s.opened.Reload(*next.(*syncstorage.Config)) }
	opened.Client = func(string) service.Client {
		return service.Client{Title: "Firefox Sync storage", Text: "Stores encrypted browser records. Firefox gets its address at sign-in"}
	}
	const sweeping = "expired records and batches"
	if s.onSpanner() {
		opened.Jobs = []sweep.Job{{Name: sweeping, By: "Spanner"}}
		// This replaces the watch for revoked users, which does nothing here: Spanner contains no accounts.
		opened.Start = s.warnOfEmulator
		opened.Inspect = func(ctx context.Context) ([]service.Finding, error) { return s.inspectSpanner(ctx, store) }
		s.openComparer(opened, db)
		return opened, nil
	}
	s.openComparer(opened, db)
	opened.Jobs = []sweep.Job{{Name: sweeping, Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit, Run: s.opened.Sweep}}
	return opened, nil
}

var refusals = service.Refusals{
	{Err: hawk.ErrMAC, Reason: "hawk-mac"},
	{Err: hawk.ErrSkew, Reason: "hawk-clock"},
	{Err: hawk.ErrPayload, Reason: "hawk-payload"},
	{Err: hawk.ErrMalformed, Reason: "hawk-malformed"},
	{Err: tokenlib.ErrExpired, Reason: "token-expired"},
	{Err: httpapi.ErrRevoked, Reason: "token-revoked"},
	{Err: tokenlib.ErrSignature, Reason: "token-signature"},
	{Err: tokenlib.ErrMalformed, Reason: "token-malformed"},
}
