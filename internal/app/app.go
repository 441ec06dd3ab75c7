package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/fair"
	"holdfast/internal/obs"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
)

// Version says which build this is.
type Version struct {
	Version string // of the release, or "dev"
	Commit  string // "" when the build does not know
}

func (v Version) String() string {
	if v.Commit == "" {
		return v.Version
	}
	return v.Version + " (" + v.Commit + ")"
}

// Options say what to open.
type Options struct {
	Config  *Config
	Data    string // folder of the embedded databases and the secrets file
	Version Version
	LogTo   io.Writer
	Clock   clock.Clock // nil: the machine's
	Quiet   bool        // only warnings and errors are logged
	Create  bool        // the data folder, files and secrets are created when missing
	Migrate bool        // Serve migrates database servers too
	Leave   bool        // tables and nodes stay as they are
	Lock    bool        // another server must not use the SQLite files
	// NoSecrets says that secrets which are neither set nor in the secrets file may be
	// made up, for this process only.
	NoSecrets  bool
	NewSecrets bool   // secrets that the data was not written with are accepted and recorded
	Notify     string // socket of the service manager to notify, or ""

	// MemoryLimit is the operator's GOMEMLIMIT, which the runtime has read; "" when
	// the server is to set the limit itself.
	MemoryLimit string
}

// App is a server with its open services.
type App struct {
	cfg      *Config
	data     string
	version  Version
	migrate  bool
	manager  string // Options.Notify
	limit    string // Options.MemoryLimit
	log      *slog.Logger
	metrics  *obs.Metrics
	refused  *prometheus.CounterVec // requests that were not let in, by service and reason
	traces   *obs.Traces
	now      clock.Clock
	resolver *web.Resolver
	gate     *web.Gate   // of the main and the internal listener
	memory   *web.Memory // likewise
	engines  *engine.Opener
	ready    *readiness
	opened   []*opened

	instance   *instance
	made       map[string]bool // secrets by setting that this process has generated
	unsaved    map[string]bool // those that are for this process only
	newFile    bool            // the secrets file was created
	recorded   bool            // a hash of a secret was recorded
	newSecrets bool            // Options.NewSecrets
	hasher     hasher
}

// opened is an open service under its name.
type opened struct {
	name  string
	turns *fair.Pool // of its requests at its database; nil without one
	*service.Opened

	bound   []boundSecret
	secrets verification
}

// newTurns lets as many requests of a service use its database at once as it can
// serve. Others wait: those that have a slot of the gate, so they are few.
func newTurns(s *service.Opened) *fair.Pool {
	if len(s.Databases) == 0 {
		return nil
	}
	return fair.New(int64(s.Databases[0].Turns()), math.MaxInt, s.Databases[0].Wait)
}

// Open opens every service that is enabled. Embedded databases are migrated;
// database servers may be away. The caller must Close.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{cfg: o.Config, data: o.Data, version: o.Version, migrate: o.Migrate, manager: o.Notify, limit: o.MemoryLimit, now: o.Clock, newSecrets: o.NewSecrets}
	if a.now == nil {
		a.now = clock.System
	}
	level := o.Config.Log.Level
	if o.Quiet {
		level = "warn"
	}
	if a.log, err = obs.NewLog(o.LogTo, level, o.Config.Log.Format); err != nil {
		return nil, err
	}
	a.ready = newReadiness(a.log)
	a.metrics = obs.NewMetrics(o.Version.Version, o.Version.Commit)
	a.gate = web.NewGate(a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	a.memory = web.NewMemory(a.cfg.Server.RequestMemory, a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	if a.resolver, err = web.NewResolver(a.cfg.Server.PublicURL, a.cfg.Server.TrustedProxies); err != nil {
		return nil, err
	}
	if err := a.secrets(o.absentSecrets()); err != nil {
		return nil, err
	}
	if a.instance, err = newInstance(a.server().MasterSecrets, a.data); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	a.observe()
	a.engines = &engine.Opener{Data: a.data, Create: o.Create, Lock: o.Lock, Metrics: a.metrics}
	for _, s := range a.cfg.enabled() {
		if err := a.open(ctx, s, o); err != nil {
			return nil, err
		}
	}
	if o.Leave {
		return a, nil
	}
	return a, a.migrateEmbedded(ctx)
}

// open opens one service.
func (a *App) open(ctx context.Context, s service.Service, o Options) error {
	open, err := s.Open(ctx, &service.Deps{
		Server: a.server(), Engines: a.engines, Log: a.log, Metrics: a.metrics, Clock: a.now,
		Data: a.data, Create: o.Create, Unsaved: a.unsaved,
	})
	if open != nil {
		a.opened = append(a.opened, &opened{name: s.Name, turns: newTurns(open), Opened: open, bound: a.boundSecrets(&s)}) // also when it failed half way: Close closes it
	}
	if _, missing := errors.AsType[*engine.MissingError](err); missing && s.Added && !o.Leave {
		return nil // no server of a release with this service has been started on this data yet
	}
	if err != nil {
		return err
	}
	for _, reason := range open.Reasons {
		a.refused.WithLabelValues(s.Name, reason)
	}
	return nil
}

// server is what services know of this server.
func (a *App) server() service.Server {
	srv := &a.cfg.Server
	masters := []string{srv.MasterSecret.Reveal()}
	for _, old := range srv.OldMasterSecrets {
		masters = append(masters, old.Reveal())
	}
	return service.Server{
		PublicURL: a.publicURL(), Listen: srv.Listen, InternalListen: srv.InternalListen, Scheme: a.scheme(),
		MasterSecrets: masters, QueueWait: srv.QueueWait, Backoff: a.gate.Backoff, Address: a.address,
	}
}

// Close closes the services and their databases.
func (a *App) Close() error {
	var errs []error
	for _, s := range a.opened {
		if s.Close != nil {
			s.Close()
		}
	}
	for _, d := range a.databases() {
		errs = append(errs, d.Close())
	}
	a.opened = nil
	if a.engines != nil {
		errs = append(errs, a.engines.Close())
	}
	return errors.Join(errs...)
}

// databases are those of all services, in the order of the services.
func (a *App) databases() (all []*engine.Database) {
	for _, s := range a.opened {
		all = append(all, s.Databases...)
	}
	return all
}

// Config is the configuration with the generated secrets.
func (a *App) Config() *Config { return a.cfg }

// publicURL is the configured one as nodes are written, without a slash at its
// end.
func (a *App) publicURL() string {
	o, err := web.ParseOrigin(a.cfg.Server.PublicURL)
	if err != nil {
		return "" // unset: Open has refused a malformed one
	}
	return o.String()
}

// address is where clients reach the server: the public URL, or else the address
// that it listens on. Nobody can type "all addresses", so the name of the machine
// replaces it.
func (a *App) address(listen string) string {
	if public := a.publicURL(); public != "" {
		return public
	}
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return a.scheme() + "://" + net.JoinHostPort(host, port)
}

// scheme is what the main listener speaks.
func (a *App) scheme() string {
	if a.cfg.Server.TLSCert != "" {
		return "https"
	}
	return "http"
}

// Sweep runs every sweep until nothing that has expired is left, and reports
// what each removed, in a line.
func (a *App) Sweep(ctx context.Context, report func(line string)) error {
	var errs []error
	for _, s := range a.opened {
		if s.SweepNote != "" {
			report(s.SweepNote)
		}
		for _, j := range s.Jobs {
			n, err := sweep.RunOnce(ctx, j, a.now)
			report(fmt.Sprintf("%s: %d", j.Name, n))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", j.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// jobs are the sweeps of all services.
func (a *App) jobs() (all []sweep.Job) {
	for _, s := range a.opened {
		all = append(all, s.Jobs...)
	}
	return all
}
