// Package tokenserver makes the tokenserver, which signs in Firefox accounts, a service of the server.
package tokenserver

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/optional"
	"holdfast/internal/sweep"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/fxa"
	"holdfast/internal/tokenserver/httpapi"
	"holdfast/internal/tokenserver/nodeclient"
	"holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/web"
)

const Name = "tokenserver"

const storageName = "syncstorage"

// cleanupEvery is how often replaced users' storage is deleted. It is kept for days, so minutes do not matter.
const cleanupEvery = 10 * time.Minute

// Storage is the sync storage as needed by accounts.
type Storage interface {
	tokenserver.Purger
	IsOpen() bool
	Engine() (kind engine.Kind, ok bool) // configured engine; false if the storage is disabled
	Usage(ctx context.Context, u *tokenserver.User) (Usage, error)

	// Totals reads the users' counters in one query.
	Totals(ctx context.Context, users []tokenserver.User) ([]Total, error)

	// SetQuota sets a storage user's quota; 0 means unlimited, unset removes it.
	SetQuota(ctx context.Context, u *tokenserver.User, bytes optional.Of[int64]) error

	// Export writes a storage user's data from one snapshot, with the account's label.
	Export(ctx context.Context, u *tokenserver.User, label string, to io.Writer, progress func(records int64)) (records int64, err error)

	// Import reads an export and writes it to the storage user returned by target.
	Import(ctx context.Context, from io.Reader, o ImportOptions, target func(ExportedUser) (*tokenserver.User, error)) (Imported, error)

	Quotas() (counted, enforced bool)
}

type ExportedUser struct {
	Account, Keys string
	Generation    int64
	Label         string
}

type ImportOptions struct{ Preserve, Merge bool }

type Imported struct {
	Collections, Records, Written, Expired, Newer int64
	Total                                         int64 // records according to the header
}

// Total is a storage user's usage, including expired records not yet deleted.
type Total struct {
	Bytes, Records int64
	Counted        bool
	ModifiedMillis int64              // 0: never written
	Quota          optional.Of[int64] // the user's own; 0: no limit
}

type Usage struct {
	Bytes           int64
	Quota           int64 // for Bytes; 0: no limit
	OwnQuota        bool
	CollectionQuota int64 // bytes per collection; 0: no limit
	ModifiedMillis  int64 // 0: never written
	Collections     []Collection
}

type Collection struct {
	Name    string
	Records int64
	Bytes   int64
}

// Accounts is the service before and after it is opened.
type Accounts struct {
	cfg      tokenserver.Config
	storage  Storage
	backends []engine.Backend[tokenserver.Store]
	opened   *tokenserver.Service
	revoked  atomic.Pointer[tokenserver.Revoked] // nil: unknown, or not watched
	used     atomic.Bool
	serves   atomic.Bool // operations are server requests, not commands

	deps *service.Deps

	mostServed int64
}

// New returns the service. backends are those on database servers; SQLite is built in.
func New(storage Storage, backends ...engine.Backend[tokenserver.Store]) *Accounts {
	onSQLite := engine.OnSQLite(sqlite.Migrations, func(db *sqlitedb.DB, _ engine.StoreOptions) tokenserver.Store { return sqlite.New(db) })
	return &Accounts{
		cfg: tokenserver.DefaultConfig(), storage: storage, mostServed: mostServed,
		backends: append([]engine.Backend[tokenserver.Store]{onSQLite}, backends...),
	}
}

func (s *Accounts) Opened() *tokenserver.Service { return s.opened }

func (s *Accounts) Service() service.Service {
	return service.Service{
		Name: Name, Doc: "Accounts: verifies sign-ins with Mozilla accounts and assigns each account a storage node.",
		Config: &s.cfg, Rules: s.rules, ProtocolPaths: []string{"/1.0"}, Probe: s.probe, Open: s.open, Commands: s.commands, Operations: s.operations(), Tables: tables,
		Import: &service.Import{Of: storageName, Flag: "accounts-from", Doc: "`URL` of the tokenserver's database", Open: s.openMozilla, Owners: "users"},
		Aliases: []conf.Alias{
			{Env: "SYNC_TOKENSERVER__STATSD_LABEL", Note: "Prometheus scrapes the admin listener instead"},
			{Env: "SYNC_TOKENSERVER__ADDITIONAL_BLOCKING_THREADS_FOR_FXA_REQUESTS", Note: "there are no worker threads"},
			{Env: "SYNC_TOKENSERVER__FXA_BROWSERID_*", Note: "browsers sign in by OAuth"},
			{Env: "SYNC_TOKENSERVER__FXA_CLIENT_ID", Note: "an OAuth token's client is not checked"},
			{Env: "SYNC_TOKENSERVER__*", Path: "tokenserver.*"},
		},
		Credentials: []service.Credential{
			{Counted: service.Counted{Of: "account", Table: "users", Where: "replaced_at IS NULL"},
				Again: []string{"accounts/delete", "access/deny", "accounts/quota", "users/quota"}},
			{Counted: service.Counted{Of: "allowed account", Table: "account_access", Where: "access = 'allow'"}, Again: []string{"access/remove", "access/deny"}},
		},
		Secrets: []service.Secret{
			service.MasterSecret,
			// It only hashes IDs in browser metrics, so no data is bound to it.
			{Name: "fxa_metrics_hash_secret", Setting: &s.cfg.FxAMetricsHashSecret},
		},
	}
}

func (s *Accounts) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	s.deps = d
	keyring, err := tokenlib.NewKeyring(d.Server.MasterSecrets...)
	if err != nil {
		return nil, err
	}
	store, db, err := engine.Open(ctx, d.Engines, Name, engine.Settings{Database: s.cfg.Database}, s.backends...)
	if err != nil {
		return nil, err
	}
	db.MigrateAtStart = s.cfg.RunMigrations
	db.AfterBackup = func(ctx context.Context, copied *sqlitedb.DB) error {
		return sqlite.New(copied).SkipUIDs(ctx, tokenserver.SkippedUIDs(0))
	}
	opened := &service.Opened{Databases: []*engine.Database{db}}
	opened.AfterRestore = []service.RestoreStep{{
		Doc: "skipping user numbers that the lost server may have assigned",
		Run: func(ctx context.Context, r service.Restored) error {
			return store.SkipUIDs(ctx, tokenserver.SkippedUIDs(r.Age))
		},
	}}
	verifier, err := fxa.New(s.cfg, d.Clock)
	if err != nil {
		return opened, err
	}
	mint := minter{keyring}
	nodes := nodeclient.New(mint, d.Clock)
	o := tokenserver.Options{
		Config: s.cfg, Store: store, Verifier: verifier, Minter: mint, Clock: d.Clock,
		PublicURL: d.Server.PublicURL, Remote: nodes, CountEvent: countEvents(d),
	}
	if s.storage.IsOpen() {
		o.Local, o.Inherit = s.storage, s.inheritQuota
	}
	opened.Start = func(ctx context.Context) (func() error, error) { return s.start(ctx, nodes), nil }
	if o.Config.NodeType == "" {
		o.Config.NodeType = string(s.nodeEngine(db.Target.Kind))
	}
	if s.opened, err = tokenserver.NewService(o); err != nil {
		return opened, err
	}
	h := &httpapi.Handler{Service: s.opened, Clock: d.Clock, Verifications: httpapi.NewVerifications(d.Server.QueueWait)}
	opened.Reload = func(next service.Config, queueWait time.Duration) {
		c := *next.(*tokenserver.Config)
		c.NodeType = o.Config.NodeType // may follow from the engine
		s.opened.Reload(c)
		h.SetVerificationWait(queueWait)
	}
	opened.Mounts = []service.Mount{{Listener: service.Main, Mount: web.Mount{
		Owns: httpapi.Owns, Service: web.Service{Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.Label, Routes: httpapi.Routes()},
	}}}
	opened.Ready = db.Ready(s.opened.Ping)
	opened.Inspect = func(ctx context.Context) ([]service.Finding, error) { return nil, s.inspect(ctx, store) }
	opened.Jobs = []sweep.Job{{Name: "replaced users' storage", Every: cleanupEvery, Limit: 100, Run: s.opened.Cleanup}}
	opened.Settle = func(ctx context.Context) error { return s.ensureNode(ctx, d) }
	opened.Refusals = refusals
	opened.Console = &service.Console{
		Title: "Firefox Sync", Icon: "accounts", Search: s.search, Finds: finds, Everyday: []string{"accounts", "access", "refused"},
		Counts: []service.Counted{{Of: "account", Table: "users", Where: "replaced_at IS NULL"}, {Of: "storage node", Table: "nodes"}},
	}
	const setting, path = "identity.sync.tokenserver.uri", "/1.0/sync/1.5"
	opened.Hint = func(base string) service.Hint {
		return service.Hint{
			Text:  "In Firefox, before signing in to Sync, open about:config and set",
			Lines: []string{setting + " = " + base + path},
		}
	}
	opened.Client = func(base string) service.Client {
		return service.Client{
			Title: "Firefox Sync", Text: "In Firefox, before you sign in to Sync, open about:config and set",
			Setting: setting, Address: base + path, Guide: "docs/devices.md",
		}
	}
	return opened, nil
}

func (s *Accounts) start(ctx context.Context, nodes *nodeclient.Purger) (stop func() error) {
	s.serves.Store(true)
	unwatch := func() error { return nil }
	if s.storage.IsOpen() {
		unwatch = s.watchRevoked(ctx, s.opened.Revoked, s.deps.Log)
	}
	return func() error {
		s.opened.StopLearning()
		err := unwatch()
		nodes.Close()
		return err
	}
}

func (s *Accounts) nodeEngine(accounts engine.Kind) engine.Kind {
	if kind, ok := s.storage.Engine(); ok {
		return kind
	}
	return accounts
}

func (s *Accounts) ensureNode(ctx context.Context, d *service.Deps) error {
	if err := s.opened.Ping(ctx); err != nil {
		return err
	}
	node, err := s.opened.EnsureNode(ctx)
	if err == nil && node != "" {
		d.Log.Info("added the Firefox Sync node", "node", node)
	}
	return err
}

type minter struct{ keyring *tokenlib.Keyring }

func (m minter) Mint(c tokenserver.Claims) (token, key string, err error) {
	origin := tokenlib.Origin
	if c.Cleanup {
		origin = tokenlib.CleanupOrigin
	}
	return m.keyring.Mint(tokenlib.Claims{
		UID: c.UID, FxAUID: c.FxAUID, FxAKID: c.FxAKID, Node: c.Node, Expires: c.Expires,
		HashedFxAUID: c.HashedFxAUID, HashedDeviceID: c.HashedDeviceID, Origin: origin,
	})
}

// refusals begin with the service's own reasons, because those errors may wrap the others.
var refusals = func() (all service.Refusals) {
	for r := tokenserver.BadCredentials; r <= tokenserver.NotAdmitted; r++ {
		all = append(all, service.Refusal{Err: &tokenserver.Refusal{Reason: r}, Reason: r.String()})
	}
	return append(all, service.Refusals{
		{Err: tokenserver.ErrAccountsUnavailable, Reason: "accounts-server-unavailable"},
		{Err: tokenserver.ErrNoNode, Reason: "no-node"},
	}...)
}()
