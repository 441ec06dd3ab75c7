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

// Name is the configuration section, the label in logs and metrics, and the SQLite file's name.
const Name = "tokenserver"

// storageName is sync storage's service name. It is repeated here because services do not import each other.
const storageName = "syncstorage"

// cleanupEvery is how often replaced users' storage is deleted. It is kept for days, so minutes do not matter.
const cleanupEvery = 10 * time.Minute

// Storage is the sync storage as needed by accounts.
type Storage interface {
	tokenserver.Purger
	// IsOpen reports whether this server stores records. The methods below that take users must not be called
	// otherwise.
	IsOpen() bool
	Engine() (kind engine.Kind, ok bool) // configured engine; false if the storage is disabled
	// Usage reads a local user's usage. For a user that never wrote it returns zeros and the configured quotas.
	Usage(ctx context.Context, u *tokenserver.User) (Usage, error)

	// Totals reads the users' counters in one query.
	Totals(ctx context.Context, users []tokenserver.User) ([]Total, error)

	// SetQuota sets a storage user's quota; 0 means unlimited, unset removes it.
	SetQuota(ctx context.Context, u *tokenserver.User, bytes optional.Of[int64]) error

	// Export writes a storage user's data from one snapshot, with the account's label.
	Export(ctx context.Context, u *tokenserver.User, label string, to io.Writer, progress func(records int64)) (records int64, err error)

	// Import reads an export and writes it to the storage user returned by target.
	Import(ctx context.Context, from io.Reader, o ImportOptions, target func(ExportedUser) (*tokenserver.User, error)) (Imported, error)

	// Quotas reports whether own quotas are counted (enable_quota or enforce_quota), and whether writes over quota are
	// refused (enforce_quota).
	Quotas() (counted, enforced bool)
}

// ExportedUser is the header of an export: the storage user that the records come from. Every field may be empty, e.g.
// in an export of a user that was named only by its UID.
type ExportedUser struct {
	// Account is the account ID, and Keys a KeyID as text.
	Account, Keys string
	// Generation is the accounts server's generation number when the user last signed in.
	Generation int64
	Label      string
}

// ImportOptions has the fields of importFlags, in the same order.
type ImportOptions struct{ Preserve, Merge bool }

// Imported counts an import's progress, also after an error. Records is the number of records read; each was either
// Written, Expired, or has a later record with the same ID here (Newer, only with Preserve).
type Imported struct {
	Collections, Records, Written, Expired, Newer int64
	Total                                         int64 // records according to the header
}

// Total is a storage user's usage, including expired records not yet deleted.
type Total struct {
	Bytes, Records int64
	// Counted is false while Bytes and Records are unknown: Spanner counts only with a quota.
	Counted        bool
	ModifiedMillis int64              // 0: never written
	Quota          optional.Of[int64] // the user's own; 0: no limit
}

// Usage is how much a storage user stores, without expired records.
type Usage struct {
	Bytes int64
	Quota int64 // for Bytes; 0: no limit
	// OwnQuota says that Quota was set for this user and replaces the configured quota.
	OwnQuota        bool
	CollectionQuota int64 // bytes per collection; 0: no limit
	ModifiedMillis  int64 // 0: never written
	Collections     []Collection
}

// Collection is a user's usage in a collection.
type Collection struct {
	Name    string
	Records int64
	Bytes   int64
}

// Accounts is the service before and after it is opened.
type Accounts struct {
	// cfg is the section that the configuration fills in before the service is opened.
	cfg     tokenserver.Config
	storage Storage
	// backends are the stores by engine, SQLite first.
	backends []engine.Backend[tokenserver.Store]
	// opened is nil while the service is disabled or not yet open.
	opened  *tokenserver.Service
	revoked atomic.Pointer[tokenserver.Revoked] // nil: unknown, or not watched
	// used says that somebody signed in before; inspect sets it for probe's findings.
	used   atomic.Bool
	serves atomic.Bool // operations are server requests, not commands

	deps *service.Deps

	// mostServed is the constant of the same name, except in tests.
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

// Opened returns the opened service, or nil. Links between services use it.
func (s *Accounts) Opened() *tokenserver.Service { return s.opened }

// Service describes the service to the server. Its Aliases are syncserver's environment variables. Import is part of
// sync storage's import, because both databases belong to one server; it never reassigns a UID that owns records.
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

// open makes the store, the verifier and the handlers. After an error, it returns the parts that are open already, so
// that the server can close them.
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
	// For a copy that an operator puts in place without holdfast restore.
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
		Title: "Firefox Sync", Icon: "sync", Search: s.search, Finds: finds, Menu: []service.MenuItem{
			{Title: "Accounts", Pages: []string{"accounts", "users"}}, {Title: "Who may sign in", Pages: []string{"access", "refused"}}, {Title: "Storage nodes", Pages: []string{"nodes"}},
		},
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
			Misled: "Firefox looks for the sign-in page here, because identity.fxaccounts.autoconfig.uri names this server, which has none. Reset that setting in about:config, set " +
				setting + " as shown below, and sign in again",
		}
	}
	return opened, nil
}

// start marks the operations as a server's, and keeps the revoked users in memory for the storage on this server, which
// must not ask the database for each request.
func (s *Accounts) start(ctx context.Context, nodes *nodeclient.Purger) (stop func() error) {
	s.serves.Store(true)
	unwatch := func() error { return nil }
	if s.storage.IsOpen() {
		unwatch = s.watchRevoked(ctx, s.opened.Revoked, s.deps.Log)
	}
	return func() error {
		// Labels may still be learned from the accounts server, and the cleanup may still call other nodes.
		s.opened.StopLearning()
		err := unwatch()
		nodes.Close()
		return err
	}
}

// nodeEngine returns the engine that names this node's type: the storage's, or, for a server without storage, the
// accounts'.
func (s *Accounts) nodeEngine(accounts engine.Kind) engine.Kind {
	if kind, ok := s.storage.Engine(); ok {
		return kind
	}
	return accounts
}

// ensureNode adds this server, or tokenserver.init_node_url, as a node on the first start. See
// tokenserver.Service.EnsureNode.
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

// minter signs storage tokens with the master secret. It implements tokenserver.Minter.
type minter struct{ keyring *tokenlib.Keyring }

// Mint marks cleanup tokens by their origin, because nodes accept these even from revoked users.
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
