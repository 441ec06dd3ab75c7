package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/alerts"
	"holdfast/internal/app/console"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/changes"
	"holdfast/internal/check"
	"holdfast/internal/clock"
	"holdfast/internal/copying"
	"holdfast/internal/db/engine"
	"holdfast/internal/engines"
	"holdfast/internal/fairshare"
	"holdfast/internal/listen"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/readonly"
	"holdfast/internal/replica/location"
	"holdfast/internal/replication"
	"holdfast/internal/restore"
	"holdfast/internal/secrets"
	"holdfast/internal/sweep"
	"holdfast/internal/systemd"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// Version identifies the build, in --version, /version and metrics.
type Version struct {
	Version string // release, or "dev"
	Commit  string // abbreviated; "": unknown
}

func (v Version) String() string {
	if v.Commit == "" {
		return v.Version
	}
	return v.Version + " (" + v.Commit + ")"
}

// Options say how Open opens the services. Config, Data and LogTo are required; every command of package cli sets
// those fields that its task needs.
type Options struct {
	Config  *Config          // from Load; its services get their databases here
	Engines []engines.Engine // external systems that the server may use, the same as those of its services
	Data    string           // folder with SQLite files and the secrets file
	Version Version
	LogTo   io.Writer   // for log lines; an *obs.Tail is used as it is
	Clock   clock.Clock // nil: the system's
	Quiet   bool        // log only warnings and errors
	Create  bool        // create missing data folders, files and secrets
	Migrate bool        // let Serve migrate database servers, too
	Leave   bool        // do not change tables and nodes
	DryRun  bool        // use an empty temporary database if the SQLite file does not exist; set Leave, too
	Copies  bool        // only copy databases
	Lock    bool        // lock the SQLite files against other servers
	// Generate missing secrets for this process only instead of failing.
	NoSecrets bool
	// Secret settings whose values could not be read and are placeholders.
	Unknown    map[string]bool
	NewSecrets bool            // accept and record secrets other than those the data was written with
	Manager    systemd.Manager // the service manager's sockets and notifications; the zero value: none

	Reload Reload // how a running server reads its configuration again

	// The state of overview.Operations; nil: a new one.
	Operated *overview.Operated

	// The operator's GOMEMLIMIT, which the runtime has already applied. "": the server sets the limit itself.
	MemoryLimit string
}

// App is a server, or a command's opened services. Close it after use; only Serve makes it listen.
type App struct {
	cfg            *Config
	on             engines.List // external systems, as in Options.Engines
	data           string
	version        Version
	migrate        bool // as in Options
	manager        systemd.Manager
	limit          string // GOMEMLIMIT
	log            *slog.Logger
	level          *slog.LevelVar // log's level, which a reload changes
	metrics        *obs.Metrics
	refused        *prometheus.CounterVec // holdfast_refusals_total
	traces         engines.Traces         // nil: none
	now            clock.Clock            // the clock for everything that is stored or compared
	lastHeartbeat  heartbeat              // latest result from unready
	resolver       *web.Resolver          // finds the clients of the main listener and of the admin API
	gate           *web.Gate              // slots for client requests
	memory         *web.Memory            // client requests' budget
	operatorMemory *web.Memory            // the admin listener's budget
	engines        *engine.Opener
	ready          *readiness
	console        *console.Console // nil if disabled
	proxies, near  *web.Resolver    // console: trusted proxies, and networks that need no TLS
	guesses        *rate.Guesses    // wrong tokens of the whole admin listener
	changes        *changes.Log
	overview       *overview.Overview
	checks         *check.OnDemand
	addresses      map[string]string // open listeners by name; set by listen
	opened         []*opened         // in the order of Config.Services
	readOnly       *readonly.Switch
	alerts         *alerts.Alerts
	backups        *backup.Scheduler
	sweeper        *sweep.Sweeper
	muxes          []*web.Mux // on all listeners, for settings that a reload changes
	reloads        reloads
	operations     []operate.Operation      // the server's own
	certificates   certificates.Source      // nil without TLS
	replication    *replication.Replication // nil without a replica

	instance *listen.Instance  // answers holdfast check, which asks who listens here
	secrets  secrets.Completed // found or generated by Open
	unsaved  map[string]bool   // secret settings generated for this process only
	guard    *secrets.Guard
}

// opened is an open service with the parts that requests need.
type opened struct {
	*service.Running

	turns      *fairshare.Turns    // shares its database among clients; nil without a database
	operations []operate.Operation // with the recorder for the log of changes
}

// newTurns returns turns at the service's first database. Their queue has no limit, because each waiting request
// holds a gate slot.
func newTurns(s *service.Opened) *fairshare.Turns {
	if len(s.Databases) == 0 {
		return nil
	}
	d := s.Databases[0]
	return fairshare.NewTurns(int64(d.Turns()), runtime.GOMAXPROCS(0), fairshare.Patience{Wait: d.Wait, Hung: d.Hung, HungWait: d.HungWait})
}

// Open opens the enabled services. It migrates SQLite databases; database servers may be unavailable.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{cfg: o.Config, on: o.Engines, data: o.Data, version: o.Version, migrate: o.Migrate, manager: o.Manager, limit: o.MemoryLimit, now: o.Clock}
	if a.now == nil {
		a.now = clock.System
	}
	level := o.Config.Log.Level
	if o.Quiet {
		level = "warn"
	}
	a.level = &slog.LevelVar{}
	if err := obs.SetLevel(a.level, level); err != nil {
		return nil, err
	}
	tail, ok := o.LogTo.(*obs.Tail)
	if !ok {
		tail = newTail(o.LogTo)
	}
	if a.log, err = obs.NewLogAt(tail, a.level, o.Config.Log.Format); err != nil {
		return nil, err
	}
	if err := restore.CheckFinished(a.data); err != nil {
		return nil, err
	}
	a.ready, a.checks = newReadiness(a.log), check.NewOnDemand()
	a.changes = &changes.Log{Log: a.log, Clock: a.now, Message: console.Message, File: filepath.Join(a.data, changes.File)}
	a.metrics = obs.NewMetrics(o.Version.Version, o.Version.Commit)
	a.gate = web.NewGate(a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	a.memory = web.NewMemory(a.cfg.Server.RequestMemory, a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	a.operatorMemory = web.NewMemory(OperatorMemory, a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	if a.resolver, err = web.NewResolver(a.cfg.Server.PublicURL, a.cfg.Server.TrustedProxies); err != nil {
		return nil, err
	}
	if a.guesses, err = rate.NewGuesses(a.now); err != nil {
		return nil, err
	}
	if err := a.completeSecrets(&o); err != nil {
		return nil, err
	}
	if a.instance, err = listen.NewInstance(a.server().MasterSecrets, a.data); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	operated := cmp.Or(o.Operated, &overview.Operated{})
	operated.Log, operated.Changes = tail, a.changes
	a.readOnly, a.alerts, a.backups = &operated.ReadOnly, &operated.Alerts, &operated.Backups
	a.backups.Server = a.backupServer
	a.backups.Set(a.cfg.Backup)
	a.readOnly.Log = a.log
	a.readOnly.Setting.Store(a.cfg.Server.ReadOnly)
	a.reloads.begin(a.cfg, o.Reload)
	operated.Reload = a.reload
	a.operations = operate.Recorded(overview.Operations(operated), a.recordChange("server"))
	a.overview = a.newOverview()
	a.overview.Sweeps, a.overview.Log, a.overview.Copies = &operated.Sweeps, tail, &operated.Copies
	a.overview.History.File, a.overview.History.Log = filepath.Join(a.data, overview.HistoryFile), a.log
	operated.Copies.Backups, operated.Copies.Known, operated.Copies.Data, operated.Copies.Clock = a.backups, backup.NamesOf(a.cfg.Services), a.data, a.now
	operated.Copies.Clouds = a.on.Clouds()
	operated.Copies.Replica = func() location.Settings { return a.cfg.Replica.Settings }
	a.prepareAlerts()
	a.observe()
	a.engines = &engine.Opener{Data: a.data, Create: o.Create, Temporary: o.DryRun, Lock: o.Lock, Copies: o.Copies, Metrics: a.metrics}
	for _, s := range a.cfg.enabled() {
		if err := a.open(ctx, s, o); err != nil {
			return nil, err
		}
	}
	a.sweeper = a.newSweeper()
	operated.Sweeps.Clock, operated.Sweeps.RunNow = a.now, a.sweeper.RunNow
	if a.cfg.Server.Console {
		if a.console, err = a.newConsole(); err != nil {
			return nil, err
		}
	}
	if o.Leave {
		return a, nil
	}
	return a, a.migrateEmbedded(ctx)
}

// open opens a service and registers it. A service that never used the data folder (isNew) is left out if its
// database file is missing, as for a command before the first start.
func (a *App) open(ctx context.Context, s service.Service, o Options) error {
	s.Operations = operate.Recorded(s.Operations, a.recordChange(s.Name))
	open, err := s.Open(ctx, &service.Deps{
		Server: a.server(), Engines: a.engines, Log: a.log, Metrics: a.metrics, Clock: a.now,
		Data: a.data, Create: o.Create, Unsaved: a.unsaved,
		Retained: a.retained,
		Whole:    func(ctx context.Context) error { return a.whole(ctx, s.Name) },
	})
	if open != nil {
		a.add(&s, open) // even after an error, so that Close closes it
	}
	if _, missing := errors.AsType[*engine.MissingError](err); missing && a.isNew(&s) && !o.Leave {
		return nil
	}
	if err != nil {
		return err
	}
	if len(s.Operations) > 0 {
		open.Mounts = append(open.Mounts, a.mountOf(s.CommandName(), s.Operations))
	}
	for _, r := range open.Refusals {
		a.refused.WithLabelValues(s.Name, r.Reason)
	}
	return nil
}

// retained returns the backups, and the replica, that contain the services' databases; see service.Deps.Retained. nil
// without any of these services.
func (a *App) retained(services ...string) (service.Copies, error) {
	c, moved := a.current(), []string(nil)
	for _, s := range a.opened {
		if !slices.Contains(services, s.Name) || len(s.Databases) == 0 {
			continue
		}
		if s.Embedded() {
			return replication.Retained(a.data, &c.Backup, &c.Replica, a.now())
		}
		moved = append(moved, engine.FileName(s.Name))
	}
	if len(moved) == 0 {
		return nil, nil
	}
	// Backups may still have the databases from before they moved to a database server.
	return replication.Retained(a.data, &c.Backup, &c.Replica, a.now(), moved...)
}

// mountOf returns the admin API for operations. name is the first part of its paths; "" is the server.
func (a *App) mountOf(name string, all []operate.Operation) service.Mount {
	api := adminapi.New(name, all)
	return service.Mount{Listener: service.Admin, Paths: api.Paths(), Mount: web.Mount{
		Owns: api.Owns, Service: web.Service{Serve: a.asOperator(api.Serve), Error: adminapi.WriteError, Route: api.Label, Routes: api.Labelled()},
	}}
}

// add registers an opened service with all parts that walk the services.
func (a *App) add(s *service.Service, open *service.Opened) {
	running := &service.Running{Opened: open, Name: s.Name, Tables: s.Tables, Command: s.CommandName(), Credentials: s.Credentials}
	a.opened = append(a.opened, &opened{Running: running, turns: newTurns(open), operations: s.Operations})
	a.readOnly.Services = append(a.readOnly.Services, running)
	a.overview.Services = append(a.overview.Services, running)
	a.guard.Add(running, a.boundSecrets(s))
}

// server describes the server to its services. Its functions may be called while the server runs.
func (a *App) server() service.Server {
	srv := &a.cfg.Server
	masters := []string{srv.MasterSecret.Reveal()}
	for _, old := range srv.OldMasterSecrets {
		masters = append(masters, old.Reveal())
	}
	return service.Server{
		PublicURL: a.publicURL(), Listen: srv.Listen, InternalListen: srv.InternalListen, Scheme: a.scheme(),
		MasterSecrets: masters, QueueWait: srv.QueueWait, Backoff: a.gate.Backoff, Address: a.address,
		OpenAddress: func(listener string) string { return a.addresses[listener] },
	}
}

// Close closes the databases, after everything else has ended. It may be called several times.
func (a *App) Close() error {
	var errs []error
	for _, d := range a.databases() {
		errs = append(errs, d.Close())
	}
	a.opened = nil
	if a.engines != nil {
		errs = append(errs, a.engines.Close())
	}
	return errors.Join(errs...)
}

// databases returns all services' databases.
func (a *App) databases() (all []*engine.Database) {
	for _, s := range a.opened {
		all = append(all, s.Databases...)
	}
	return all
}

// running returns the opened services as other packages see them.
func (a *App) running() (all []*service.Running) {
	for _, s := range a.opened {
		all = append(all, s.Running)
	}
	return all
}

// whole returns an error if the service's database is an incomplete copy or restore; see checkWhole.
func (a *App) whole(ctx context.Context, name string) error {
	for _, s := range a.opened {
		if s.Name != name {
			continue
		}
		if err := checkWhole(ctx, s.Running, readyTimeout); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkWhole returns an error if a service's database is an incomplete copy, or is restored and not prepared for
// clients. It ignores read errors, because other calls return them.
func checkWhole(ctx context.Context, s *service.Running, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, d := range s.Databases {
		if err := d.CheckRestored(ctx); errors.Is(err, engine.ErrUnfinishedRestore) {
			return err
		}
	}
	db := s.Rows()
	if db == nil {
		return nil
	}
	return copying.CheckWhole(ctx, db, s.Name)
}

// Backup copies the data to a new folder; see backup.Server.Make.
func (a *App) Backup(ctx context.Context, dir string, o backup.Options) (files []string, err error) {
	return a.backupServer().Make(ctx, dir, o)
}

// SendBackup adds a backup at a URL; see backup.Server.Send.
func (a *App) SendBackup(ctx context.Context, s *backup.Sending) (backup.Sent, error) {
	return a.backupServer().Send(ctx, s)
}

// ReplacedBackups returns a sentence that says which backups the next backup replaces.
func (a *App) ReplacedBackups(s *backup.Settings) (string, error) {
	gone, err := a.backupServer().Replaces(s)
	return backup.DescribeReplaced(gone), err
}

// backupServer describes the services that are open now.
func (a *App) backupServer() *backup.Server {
	return &backup.Server{Services: a.running(), Clouds: a.on.Clouds(), Known: backup.NamesOf(a.cfg.Services), Data: a.data, Log: a.log, Clock: a.now}
}

// Config returns the configuration with the generated secrets.
func (a *App) Config() *Config { return a.cfg }

// publicURL returns server.public_url in its normal form, or "".
func (a *App) publicURL() string {
	o, err := web.ParseOrigin(a.cfg.Server.PublicURL)
	if err != nil {
		return ""
	}
	return o.String()
}

// address returns the URL under which clients reach a listen address: the public URL, or the address with this
// machine's name in place of an unspecified host.
func (a *App) address(address string) string {
	if public := a.publicURL(); public != "" {
		return public
	}
	if name, err := os.Hostname(); err == nil {
		address = listen.WithHostName(address, name)
	}
	return a.scheme() + "://" + address
}

func (a *App) scheme() string { return a.cfg.Server.scheme() }

// Sweep runs each job once and reports its rows. An error in a job does not keep the others from running. Incomplete
// copies are not swept.
func (a *App) Sweep(ctx context.Context, report func(line string)) error {
	var errs []error
	for _, s := range a.opened {
		if err := a.whole(ctx, s.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, j := range s.Jobs {
			if j.By != "" {
				report(j.Name + ": " + j.By + " removes them by itself")
				continue
			}
			n, err := sweep.RunOnce(ctx, j, a.now)
			report(fmt.Sprintf("%s: %d", j.Name, n))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", j.Name, err))
			}
			if j.Left == nil || ctx.Err() != nil {
				continue
			}
			left, err := j.Left(ctx, a.now())
			if left != "" {
				report("  left: " + left)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", j.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// jobs returns all sweep jobs. Of the processes with the same database, only one runs each round.
func (a *App) jobs() (all []sweep.Job) {
	for _, s := range a.opened {
		for _, j := range s.Jobs {
			if len(s.Databases) > 0 {
				j.Rounds = s.Databases[0]
			}
			all = append(all, j)
		}
	}
	return all
}
