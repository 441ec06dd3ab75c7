// Package ext makes extension storage a server service.
package ext

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"maps"
	"os"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/backend"
	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/extstorage/schemas"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/outbox"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
)

// Name is the configuration section, the label in logs and metrics, and the SQLite file's name.
const Name = "extstorage"

// Extensions is the service before and after it is opened.
type Extensions struct {
	// cfg is the section that the configuration fills in before the service is opened.
	cfg      ext.Config
	backends []engine.Backend[backend.Store]
	brokers  sinks.Brokers
	deps     *service.Deps
	// opened is nil while the service is disabled or not yet open.
	opened     *ext.Service
	inspection *inspection.Service
	// tokens signs and verifies client and service tokens.
	tokens *bearer.Keyring
	// audit is the table with audit events that are not published.
	audit outbox.Box
	// waker wakes the relay after a write with audit events.
	waker      *outbox.Waker
	relayShare int // relay partitions; 0: default
	metrics    *metrics
	// rates are the rate limits, which are reloaded.
	rates *httpapi.Rates
}

// New returns the service. backends are those on database servers; SQLite is built in.
func New(backends ...engine.Backend[backend.Store]) *Extensions {
	onSQLite := engine.OnSQLite(sqlite.Migrations, func(db *sqlitedb.DB, o engine.StoreOptions) backend.Store {
		return sqlite.New(db, sqlite.Options{Waker: o.Waker, Clock: o.Clock})
	})
	return &Extensions{cfg: ext.DefaultConfig(), backends: append([]engine.Backend[backend.Store]{onSQLite}, backends...)}
}

// UseBrokers sets the message brokers that events can be sent to. Call it before the service is opened.
func (s *Extensions) UseBrokers(b sinks.Brokers) { s.brokers = b }

// Opened returns the opened service, or nil.
func (s *Extensions) Opened() *ext.Service { return s.opened }

// Service describes the service to the server.
func (s *Extensions) Service() service.Service {
	return service.Service{
		Name: Name, Doc: "Extension storage: JSON records for browser extensions, by tenant and install.",
		Config: &s.cfg, Check: s.check, Rules: s.rules, ProtocolPaths: []string{"/ext/v1"}, Probe: s.probe, Open: s.open, Commands: s.commands, Operations: s.operations(),
		LargestRequest: httpapi.LargestRequest, Tables: tables,
		Credentials: []service.Credential{
			{Counted: service.Counted{Of: "usable install", Table: "ext_storage_installs", Where: "revoked_at IS NULL AND deleted_at IS NULL"},
				Again: []string{"installs/revoke", "installs/delete", "tenants/delete", "installs/set", "installs/quota"}},
			{Counted: service.Counted{Of: "install tokens"}, Again: []string{"tokens/revoke", "tokens/revoke-id"}},
			{Counted: service.Counted{Of: "service tokens"}, Again: []string{"tokens/revoke", "service-tokens/revoke-id"}},
			{Counted: service.Counted{Of: "deleted records"}, Again: []string{"records/delete"}},
		},
		// Signs client tokens and cursors.
		Secrets: []service.Secret{{Name: "token_secret", Setting: &s.cfg.TokenSecret, Old: &s.cfg.OldTokenSecrets, Bound: true}},
	}
}

// tokenSecret is the secret's name in service.Deps.Unsaved.
const tokenSecret = Name + ".token_secret"

// open makes the store, the service and its handlers. After an error, it returns the parts that are open already, so
// that the server can close them.
func (s *Extensions) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	s.deps = d
	opened := &service.Opened{}
	st, err := s.openStore(ctx, opened)
	if err != nil {
		return nil, err
	}
	if s.tokens, err = keyring(s.cfg); err != nil {
		return opened, err
	}
	secrets := s.cfg.TokenSecrets()
	cursorKeys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		if cursorKeys[i], err = hkdf.Key(sha256.New, []byte(secret), nil, "extstorage cursors", sha256.Size); err != nil {
			return opened, err
		}
	}
	validator := schemas.NewValidator(int(s.cfg.SchemaMemory), trialCommand)
	observeSchemas(d.Metrics, validator)
	opened.Caches = func() (bytes, maxBytes int64) {
		c := validator.Cache()
		maxBytes = ext.CacheBytes + validator.MemoryBytes()
		// Only the maximum of the other caches is known: a thousand active installs with documents of maximum size.
		return int64(c.Bytes) + ext.CacheBytes/4, maxBytes
	}
	s.opened, err = ext.NewService(ext.Options{
		Store: st, Registry: st, Installs: st, Tokens: st, Deletions: st, Validators: validator, Documents: validator,
		Config: s.cfg, CursorKeys: cursorKeys, Clock: d.Clock,
	})
	if err != nil {
		return opened, err
	}
	s.inspection = inspection.New(st, s.cfg, d.Clock)
	s.metrics = observe(d.Metrics, s.inspection, d.Clock)
	if opened.Mounts, err = s.mounts(); err != nil {
		return opened, err
	}
	opened.Ready = opened.Databases[0].Ready(s.opened.Ping)
	for kind, name := range sweepNames {
		opened.Jobs = append(opened.Jobs, sweep.Job{
			Name: name, Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
			Run: s.metrics.countSwept(func(ctx context.Context, now time.Time, limit int) (int, error) {
				return s.opened.Sweep(ctx, ext.Swept(kind), now, limit)
			}),
		})
	}
	opened.Start, opened.Reload = s.startRelay, s.reload
	opened.Refusals = refusals
	opened.Console = s.console()
	opened.Hint = func(base string) service.Hint {
		return service.Hint{
			Text: "For extensions, create an install token (choose UUIDs for tenant and install) and use it at\n" +
				base + "/ext/v1/installs/INSTALL",
			Lines: []string{os.Args[0] + " ext tokens create --tenant TENANT --install INSTALL --namespace settings=rw"},
		}
	}
	opened.Client = func(base string) service.Client {
		return service.Client{
			Title: "Extension storage", Text: "Extensions use this address",
			Address: base + "/ext/v1", Guide: "docs/extension-storage.md",
		}
	}
	return opened, nil
}

// reload applies the settings tagged reload. The wait for a slot, which it also gets, is not used.
func (s *Extensions) reload(next service.Config, _ time.Duration) {
	c := *next.(*ext.Config)
	s.opened.Reload(c)
	s.inspection.Reload(c)
	if !c.RateLimits {
		s.rates.Clear()
	} else if err := s.rates.Set(c.Rates); err != nil {
		s.deps.Log.Error("rate limits not applied", "error", err) // validated by Check
	}
}

// sweepNames are the sweeps' names in logs and metrics.
var sweepNames = [ext.SweptKinds]string{
	ext.SweptRecords: "expired extension records",
	ext.SweptChanges: "old extension changes",
	ext.SweptAnswers: "old extension responses",
	ext.SweptTokens:  "revocations of expired extension tokens",

	ext.SweptTombstones: "entries for deleted extension installs",
}

// openStore opens the database, and adds to opened everything that only concerns the store: backups, restores, and the
// optional index.
func (s *Extensions) openStore(ctx context.Context, opened *service.Opened) (backend.Store, error) {
	s.waker = outbox.NewWaker()
	st, db, err := engine.Open(ctx, s.deps.Engines, Name, engine.Settings{
		Database: s.cfg.Database, Store: engine.StoreOptions{Clock: s.deps.Clock, Waker: s.waker},
	}, s.backends...)
	if err != nil {
		return nil, err
	}
	s.audit = st.Outbox()
	if db.Embedded() {
		s.relayShare = outbox.Partitions // no other process publishes a file's events
	}
	opened.Databases = []*engine.Database{db}
	db.AfterBackup = func(ctx context.Context, copied *sqlitedb.DB) error {
		return sqlite.New(copied, sqlite.Options{}).SkipChanges(ctx, ext.SkippedChanges(0))
	}
	opened.AfterRestore = []service.RestoreStep{{
		Doc: "skipping change numbers and schema versions that the lost server may have assigned",
		Run: func(ctx context.Context, r service.Restored) error {
			return st.SkipChanges(ctx, ext.SkippedChanges(r.Age))
		},
	}}
	indexed, ok := st.(backend.Indexed)
	if !ok {
		return st, nil
	}
	opened.Inspect = func(ctx context.Context) ([]service.Finding, error) {
		return inspect(ctx, indexed, s.cfg.MetadataIndex)
	}
	if s.cfg.MetadataIndex {
		db.AfterMigrate = func(ctx context.Context) (string, error) {
			made, err := indexed.EnsureMetadataIndex(ctx)
			if !made {
				return "", err
			}
			return "the metadata index", err
		}
	}
	return st, nil
}

// mounts returns the handlers for clients, on the main listener, and for services, on the internal listener. Both share
// the rate limits.
func (s *Extensions) mounts() ([]service.Mount, error) {
	clock, m := s.deps.Clock, s.metrics
	rates, err := httpapi.NewRates(s.cfg.Rates, clock)
	if err != nil {
		return nil, err
	}
	if !s.cfg.RateLimits {
		rates.Clear()
	}
	s.rates = rates
	client := &httpapi.Handler{Service: s.opened, Tokens: s.tokens, Clock: clock, Rates: rates, Timeout: s.cfg.RequestTimeout}
	runner := &httpapi.Runner{Service: s.opened, Tokens: s.tokens, Clock: clock, Rates: rates, Timeout: s.cfg.RequestTimeout}
	return []service.Mount{
		{Listener: service.Main, Mount: web.Mount{Owns: httpapi.Owns, Service: web.Service{
			Serve: m.count(client.Serve, clientOperation), Error: m.countErrors(httpapi.WriteError), Route: httpapi.Label, Routes: httpapi.Routes(),
			Conditions: httpapi.Conditions,
		}}},
		{Listener: service.Internal, Paths: []string{"/internal/ext-storage/install/INSTALL"}, Mount: web.Mount{Owns: httpapi.OwnsRunner, Service: web.Service{
			Serve: m.count(runner.Serve, runnerOperation), Error: m.countErrors(httpapi.WriteInnerError), Route: httpapi.LabelRunner, Routes: httpapi.RunnerRoutes(),
			Conditions: web.CheckedByHandler,
		}}},
	}, nil
}

// keyring returns all keys. The first of the server's own keys also signs.
func keyring(cfg ext.Config) (*bearer.Keyring, error) {
	var keys []bearer.Key
	for _, secret := range cfg.TokenSecrets() {
		keys = append(keys, bearer.Key{ID: ext.OwnTokenKey(secret), Alg: bearer.HS256, Text: secret})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.TokenKeys)) {
		k := cfg.TokenKeys[name]
		keys = append(keys, bearer.Key{ID: k.KeyID(name), Alg: k.Alg, Text: k.Key})
	}
	return bearer.NewKeyring(bearer.Options{Keys: keys, Issuer: cfg.TokenIssuer, Audience: cfg.TokenAudience, Leeway: cfg.TokenLeeway, MaxLifetime: cfg.TokenMaxLifetime})
}

// check refuses token keys that cannot verify anything. Keys from identity providers are parsed here, so that a mistake
// is found before the start.
func (s *Extensions) check(service.Settings) (problems conf.Problems) {
	maps.DeleteFunc(s.cfg.TokenKeys, func(_ string, k ext.TokenKey) bool { return k == ext.TokenKey{} }) // empty, as in the example
	for _, name := range slices.Sorted(maps.Keys(s.cfg.TokenKeys)) {
		k := s.cfg.TokenKeys[name]
		if _, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: k.KeyID(name), Alg: k.Alg, Text: k.Key}}}); err != nil {
			problems.Addf("token_keys."+name, "%v", err)
		}
	}
	return problems
}

var refusals = service.Refusals{
	{Err: bearer.ErrExpired, Reason: "bearer-expired"},
	{Err: bearer.ErrSignature, Reason: "bearer-signature"},
	{Err: bearer.ErrMalformed, Reason: "bearer-malformed"},
	{Err: bearer.ErrNotYet, Reason: "bearer-clock"},
	{Err: bearer.ErrForeign, Reason: "bearer-foreign"},
	{Err: bearer.ErrTooLong, Reason: "bearer-lifetime"},
	{Err: ext.ErrTokenExpired, Reason: "bearer-expired"},
	{Err: ext.ErrTokenRevoked, Reason: "bearer-revoked"},
	{Err: ext.ErrRevoked, Reason: "install-revoked"},
	{Err: ext.ErrInstallDeleted, Reason: "install-deleted"},
	{Err: ext.ErrInstallDeleting, Reason: "install-deleted"},
}
