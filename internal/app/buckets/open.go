// Package buckets integrates the S3-compatible buckets service into the server.
package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/sigv4"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/backend"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/buckets/lifecycle"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
)

// Name is the configuration section, the label in logs and metrics, and the SQLite file's name.
const Name = "buckets"

// Listener is the S3 listener's name.
const Listener = "s3"

// Buckets is the service, open or not.
type Buckets struct {
	// cfg is the section that the configuration fills in before the service is opened. live is its latest version, for
	// settings that are reloaded.
	cfg      buckets.Config
	backends []engine.Backend[backend.Store]
	live     atomic.Pointer[buckets.Config]
	brokers  sinks.Brokers
	clouds   blobs.Clouds
	deps     *service.Deps
	// opened is nil while the service is disabled or not yet open.
	opened      *buckets.Service
	maintenance *maintenance.Service
	lifecycle   *lifecycle.Runner
	publisher   *publisher
	// keys encrypts access keys; tokens signs tokens for the native API.
	keys    *buckets.Keyring
	tokens  *bearer.Keyring
	cluster *blobs.Cluster
	nodes   *nodes
	metrics *metrics
	// serves is set in a server, whose nodes are open; operations in a command open them.
	serves atomic.Bool
	// watcher is the replica's function for new bodies; see watch.
	watcher atomic.Pointer[func(replica.Body) (settled func(kept bool))]

	mu    sync.Mutex
	first *newKey // set if this process created firstAccount
}

// newKey is an access key with its secret in plain text.
type newKey struct{ id, secret string }

// New returns the service. backends are those on database servers; SQLite is built in.
func New(backends ...engine.Backend[backend.Store]) *Buckets {
	onSQLite := engine.OnSQLite(sqlite.Migrations, func(db *sqlitedb.DB, _ engine.StoreOptions) backend.Store { return sqlite.New(db) })
	return &Buckets{cfg: buckets.DefaultConfig(), backends: append([]engine.Backend[backend.Store]{onSQLite}, backends...)}
}

// UseBrokers sets the message brokers that events can be sent to. Call it before the service is opened.
func (s *Buckets) UseBrokers(b sinks.Brokers) { s.brokers = b }

// UseClouds sets how buckets of cloud providers are opened as storage nodes. Call it before the service is opened.
func (s *Buckets) UseClouds(c blobs.Clouds) { s.clouds = c }

// Service describes the service to the server.
func (s *Buckets) Service() service.Service {
	return service.Service{
		Name: Name, Doc: "Buckets: S3-compatible object storage.",
		Config: &s.cfg, Rules: s.rules, ProtocolPaths: []string{"/buckets/v1"}, Probe: s.probe, Open: s.open, Commands: s.commands, Operations: s.operations(), Tables: tables,
		Listeners: func() []service.Listener {
			return []service.Listener{{Name: Listener, Setting: Name + ".listen", Address: s.cfg.Listen}}
		},
		Credentials: []service.Credential{
			{Counted: service.Counted{Of: "access key", Table: "manta_bucket_key", Where: "revoked IS NULL"},
				Again: []string{"keys/revoke", "keys/limit", "accounts/delete"}},
			{Counted: service.Counted{Of: "bucket setting", Table: "manta_bucket_settings"},
				Again: []string{"policy/set", "policy/delete", "policy/block-public", "buckets/set-access", "buckets/set-cors"}},
			{Counted: service.Counted{Of: "bucket", Table: "manta_bucket"}, Again: []string{"buckets/set-lock", "buckets/delete", "quotas/set"}},
			{Counted: service.Counted{Of: "retentions and legal holds of versions"}, Again: []string{"versions/retain", "versions/hold"}},
			{Counted: service.Counted{Of: "deleted objects and versions"}, Again: []string{"objects/delete", "versions/delete"}},
		},
		// Encrypts the secrets of access keys.
		Secrets:        []service.Secret{{Name: "key_secret", Setting: &s.cfg.KeySecret, Old: &s.cfg.OldKeySecrets, Bound: true}},
		LargestRequest: func() int64 { return max(s3api.LargestRequest(), httpapi.LargestRequest()) },
	}
}

// open makes the store, the nodes and the handlers. After an error, it returns the parts that are open already, so that
// the server can close them. It does not read the database, whose migrations come later.
func (s *Buckets) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	s.deps = d
	s.live.Store(&s.cfg)
	st, db, err := engine.Open(ctx, d.Engines, Name, engine.Settings{Database: s.cfg.Database}, s.backends...)
	if err != nil {
		return nil, err
	}
	opened := &service.Opened{Databases: []*engine.Database{db}}
	if s.keys, err = buckets.NewKeyring(st, d.Clock, s.cfg.KeySecret, s.cfg.OldKeySecrets, s.cfg.ConfiguredKeys()...); err != nil {
		return opened, err
	}
	if s.tokens, err = tokenKeys(append([]string{s.cfg.KeySecret}, s.cfg.OldKeySecrets...)); err != nil {
		return opened, err
	}
	s.cluster = blobs.NewCluster(blobs.Options{Clock: d.Clock, Report: s.report, Missing: func(ctx context.Context) { s.nodes.reload(ctx) }, Observe: func(node string, e blobs.Event) {
		s.metrics.bodies.WithLabelValues(node, string(e)).Inc()
	}})
	s.nodes = &nodes{cluster: s.cluster, clouds: s.clouds, service: buckets.NewNodeService(st), cfg: &s.cfg, clock: d.Clock, log: d.Log, folder: filepath.Join(d.Data, Name), create: d.Create, process: newProcessID()}
	s.opened = buckets.NewService(buckets.Options{
		Backend: st, Bodies: s.cluster, Clock: d.Clock, Written: s.written,
		Limits: limits(&s.cfg), Destinations: s.cfg.EventDestinations(),
	})
	s.publisher = newPublisher(s, st)
	cores := sigv4.NewCores()
	verifier := sigv4.New(s.cfg.Region, d.Clock)
	verifier.Version2 = s.cfg.SignatureV2
	s3 := &s3api.Handler{
		Service: s.opened, Verifier: verifier, Keys: s.keys, Region: s.cfg.Region, Domain: s.cfg.Domain, Cores: cores,
	}
	s.maintenance, s.lifecycle = s.openMaintenance(st), s.openLifecycle(st)
	s.metrics = s.observe(d, s3)
	native := &httpapi.Handler{Service: s.opened, Tokens: s.tokens, Clock: d.Clock, Cores: cores}
	opened.Mounts = []service.Mount{
		{Listener: Listener, Mount: web.Mount{
			Owns: s3api.Owns, Service: web.Service{Serve: s.metrics.count(s3), Error: s3api.WriteError, Route: s3api.Label, Routes: s3Routes(), Conditions: web.CheckedByHandler},
		}},
		{Listener: service.Main, Mount: web.Mount{
			Owns: httpapi.Owns, Service: web.Service{Serve: native.Serve, Error: httpapi.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions},
		}},
	}
	opened.Jobs = s.jobs()
	opened.Ready = s.ready(db.Ready(st.Ping))
	opened.Settle = s.settle
	opened.Inspect = s.inspect
	opened.Files = s.files()
	db.AfterBackup = func(ctx context.Context, copied *sqlitedb.DB) error { return sqlite.New(copied).MarkRestored(ctx) }
	opened.AfterRestore = []service.RestoreStep{{
		Doc: "marking incomplete uploads, because bodies of their parts may be missing",
		Run: func(ctx context.Context, _ service.Restored) error { return st.MarkRestored(ctx) },
	}}
	opened.Start, opened.Reload = s.start, s.reload
	opened.Console = s.console()
	opened.Hint = func(string) service.Hint { return s.hint(ctx, db.Embedded()) }
	opened.Client = func(string) service.Client { return s.client() }
	return opened, nil
}

// s3Routes returns the S3 API's labels with their methods. Several operations share both, because they differ in their
// query.
func s3Routes() []web.Route {
	all := []web.Route{{Label: s3api.Label("/"), Method: http.MethodGet}}
	for _, r := range s3api.Routes() {
		label := s3api.Label("/bucket")
		if r.OfObject {
			label = s3api.Label("/bucket/key")
		}
		if route := (web.Route{Label: label, Method: r.Method}); !slices.Contains(all, route) {
			all = append(all, route)
		}
	}
	return all
}

// limits returns the settings that the service itself reloads.
func limits(c *buckets.Config) buckets.Limits {
	return buckets.Limits{Inline: c.Inline, Copies: c.Copies, GarbageAfter: c.GarbageAfter, StandardOnly: !c.Classes}
}

// reload applies the settings tagged reload. The wait for a slot, which it also gets, is not used.
func (s *Buckets) reload(next service.Config, _ time.Duration) {
	c := next.(*buckets.Config)
	s.live.Store(c)
	s.opened.Reload(limits(c))
}

// ready adds the storage nodes to the database's readiness. reached checks the database.
func (s *Buckets) ready(reached func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := reached(ctx); err != nil {
			return err
		}
		return s.nodes.check(ctx, s.live.Load().Copies)
	}
}

// client describes the service on the status page. Behind a proxy, only buckets.domain reveals the endpoint.
func (s *Buckets) client() service.Client {
	c := service.Client{Title: "Buckets", Text: "S3 clients use this endpoint", Guide: "docs/buckets.md"}
	server := &s.deps.Server
	_, port, _ := net.SplitHostPort(s.listen())
	switch {
	case server.PublicURL == "" && s.cfg.Domain == "":
		c.Address = server.Address(s.listen())
	case server.PublicURL == "":
		c.Address = server.Scheme + "://" + net.JoinHostPort(s.cfg.Domain, port)
	case s.cfg.Domain == "":
		c.Text = "Serves S3 clients"
	default:
		scheme, _, _ := strings.Cut(server.PublicURL, "://")
		c.Address = scheme + "://" + s.cfg.Domain
	}
	return c
}

// jobs returns the sweeps in the order in which a manual run starts them.
func (s *Buckets) jobs() []sweep.Job {
	job := func(name string, run func(ctx context.Context, now time.Time, limit int) (int, error)) sweep.Job {
		return sweep.Job{Name: name, Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit, Run: run}
	}
	objects := job("deleted bucket objects", func(ctx context.Context, now time.Time, limit int) (int, error) {
		if err := s.nodes.ensure(ctx); err != nil {
			return 0, err
		}
		return s.opened.Collect(ctx, now.Add(-s.live.Load().GarbageAfter), limit)
	})
	objects.Left = s.garbageLeft
	return []sweep.Job{
		s.lifecycleJob(),
		job("bucket events", s.dropEvents),
		job("incomplete uploads to buckets", func(ctx context.Context, now time.Time, limit int) (int, error) {
			if s.live.Load().UploadsAfter == 0 {
				return 0, nil
			}
			n, err := s.opened.AbortUploads(ctx, now.Add(-s.live.Load().UploadsAfter), limit)
			s.metrics.aborted.Add(int64(n))
			return n, err
		}),
		objects,
		job("plain names of buckets", func(ctx context.Context, now time.Time, limit int) (int, error) {
			return s.opened.ForgetNames(ctx, buckets.At(now), limit)
		}),
		job("deleted buckets", func(ctx context.Context, now time.Time, limit int) (int, error) {
			return s.opened.CollectBuckets(ctx, now.Add(-s.live.Load().GarbageAfter), limit)
		}),
	}
}

// firstAccount is the account in a new database.
const firstAccount = "main"

// needKeySecret returns an error if the key secret was generated only for this process, as in a command that runs
// before the server's first start.
func (s *Buckets) needKeySecret() error {
	if s.deps.Unsaved[keySecret] {
		return errcode.New(errcode.Invalid, "the secrets file has no buckets key secret: start the server once to add it")
	}
	return nil
}

// settle creates the configured accounts. If none is configured, a new database gets an account with an access key,
// unless the key secret is not saved yet, as in `holdfast migrate`: no server could decrypt the key.
func (s *Buckets) settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.cfg.Accounts {
		_, err := s.opened.Account(ctx, name)
		if errors.Is(err, buckets.ErrNoAccount) {
			err = s.opened.CreateAccount(ctx, s.opened.NewAccount(name))
		}
		if err != nil && !errors.Is(err, buckets.ErrAccountExists) { // created concurrently
			return err
		}
	}
	accounts, err := s.opened.ListAccounts(ctx, "", 1)
	if err != nil || len(accounts) > 0 || s.needKeySecret() != nil {
		return err
	}
	key, err := s.createAccount(ctx, firstAccount)
	if errors.Is(err, buckets.ErrAccountExists) {
		return nil
	}
	if err == nil {
		s.first = &key
	}
	return err
}

// createAccount creates an account with an unlimited key.
func (s *Buckets) createAccount(ctx context.Context, name string) (newKey, error) {
	a := s.opened.NewAccount(name)
	key, secret := s.keys.New(a.ID, buckets.KeyTerms{})
	err := s.opened.CreateAccount(ctx, a, key)
	s.keys.Changed(key.ID)
	return newKey{key.ID, secret}, err
}

// hint shows a new access key only on a terminal, because a journal must not contain secrets.
func (s *Buckets) hint(ctx context.Context, embedded bool) service.Hint {
	if embedded { // a remote database may be unavailable
		_ = s.settle(ctx) // the server repeats it and reports the error
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := service.Hint{
		Text:  "For S3, see the endpoint " + s.endpoint() + " and an access key",
		Lines: []string{os.Args[0] + " buckets env"},
	}
	if s.first != nil {
		h.Private = &service.Hint{Text: "For S3, use this endpoint and access key, e.g. with aws-cli", Lines: []string{
			"endpoint    " + s.endpoint(), "access key  " + s.first.id, "secret key  " + s.first.secret,
			fmt.Sprintf("AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s AWS_DEFAULT_REGION=%s aws --endpoint-url %s s3 mb s3://photos",
				s.first.id, s.first.secret, s.cfg.Region, s.endpoint()),
		}}
	}
	return h
}

// listen returns the S3 listener's address, with the actual port if it is open.
func (s *Buckets) listen() string { return cmp.Or(s.deps.Server.OpenAddress(Listener), s.cfg.Listen) }

// endpoint returns the S3 endpoint for clients on this machine.
func (s *Buckets) endpoint() string {
	host, port, _ := net.SplitHostPort(s.listen())
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.deps.Server.Scheme + "://" + net.JoinHostPort(host, port)
}

// start loads nodes and damaged copies before the first request.
func (s *Buckets) start(ctx context.Context) (func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	s.nodes.reload(ctx)
	s.serves.Store(true)
	s.metrics.know(s.cluster.Nodes())
	endEvents, err := s.publisher.start(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	// Register before the first body is written, so that a kill leaves a lock file behind.
	dead := newProcesses(s, s.nodes.process)
	if err := dead.register(ctx); err != nil {
		s.deps.Log.Warn("this process's temporary files stay for a day if it is killed", "error", err)
	}
	var work sync.WaitGroup
	work.Go(func() { s.nodes.run(ctx) })
	work.Go(s.maintenance.Start(ctx))
	work.Go(func() { dead.run(ctx, s.cfg.SweepEvery) })
	return func() error {
		cancel()
		work.Wait()
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), blobs.DefaultStall)
		defer done()
		err := s.cluster.Close(closing)
		dead.unregister(err == nil)
		return errors.Join(err, s.nodes.close(), endEvents())
	}, nil
}

// report counts a bad copy and hands it over for repair. Lost does not concern a single node, so it has no counter
// here.
func (s *Buckets) report(f blobs.Finding) {
	if f.Problem != blobs.Lost {
		s.metrics.bodies.WithLabelValues(f.Node, string(f.Problem)).Inc()
	}
	s.maintenance.Report(f)
}
