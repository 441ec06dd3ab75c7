package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/obs"
	"holdfast/internal/outbox"
	"holdfast/internal/sweep"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
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
	Create  bool        // the data folder, files and secrets are made when missing
	Migrate bool        // Serve migrates database servers too
	Leave   bool        // tables and nodes stay as they are
	Notify  string      // socket of the service manager that waits for word, or ""
}

// App is the opened rooms.
type App struct {
	cfg      *Config
	data     string
	version  Version
	migrate  bool
	manager  string // Options.Notify
	log      *slog.Logger
	metrics  *obs.Metrics
	refused  *prometheus.CounterVec // requests that were not let in, by room and reason
	traces   *obs.Traces
	now      clock.Clock
	keyring  *tokenlib.Keyring
	resolver *web.Resolver

	storage  *syncstorage.Service // nil when the room is off
	accounts *tokenserver.Service // nil when the room is off
	records  *ext.Service         // nil when the room is off
	tokens   *bearer.Keyring      // of records
	unsaved  bool                 // their secret was made for this process only
	audit    outbox.Box           // of records

	recordMetrics *recordMetrics

	databases []*database
	closers   []func() // of what holds connections besides the databases
	checks    []readiness
	jobs      []sweep.Job
}

// readiness is what a room needs to serve.
type readiness struct {
	room string
	ping func(context.Context) error
}

// Open opens every room that is on. Embedded databases are migrated; database
// servers may be away. The caller must Close.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{cfg: o.Config, data: o.Data, version: o.Version, migrate: o.Migrate, manager: o.Notify, now: o.Clock}
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
	a.metrics = obs.NewMetrics(o.Version.Version, o.Version.Commit)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := a.secrets(o.Create); err != nil {
		return nil, err
	}
	if a.resolver, err = web.NewResolver(o.Config.Server.PublicURL, o.Config.Server.TrustedProxies); err != nil {
		return nil, err
	}
	if o.Config.Syncstorage.Enabled {
		if err := a.openSync(ctx, o.Create); err != nil {
			return nil, err
		}
	}
	if o.Config.Tokenserver.Enabled {
		if err := a.openTokens(ctx, o.Create); err != nil {
			return nil, err
		}
	}
	if o.Config.Extstorage.Enabled {
		if err := a.openExt(ctx, o.Create); err != nil {
			return nil, err
		}
	}
	a.observe()
	if o.Leave {
		return a, nil
	}
	return a, a.migrateEmbedded(ctx)
}

// secrets completes the configuration by what the server generated.
func (a *App) secrets(create bool) error {
	cfg := *a.cfg // the caller's stays as it was read
	a.cfg = &cfg
	srv := &cfg.Server
	if srv.MasterSecret == "" || srv.AdminToken == "" || cfg.Tokenserver.Enabled && cfg.Tokenserver.FxAMetricsHashSecret == "" ||
		cfg.Extstorage.Enabled && cfg.Extstorage.TokenSecret == "" {
		if create {
			if err := makeData(a.data); err != nil {
				return err
			}
		}
		own, err := loadSecrets(a.data, create)
		if err != nil {
			return err
		}
		fill(&srv.MasterSecret, own.MasterSecret)
		fill(&srv.AdminToken, own.AdminToken)
		fill(&cfg.Tokenserver.FxAMetricsHashSecret, own.FxAMetricsHashSecret)
		a.unsaved = own.unsaved && cfg.Extstorage.TokenSecret == ""
		fill(&cfg.Extstorage.TokenSecret, own.ExtTokenKey)
	}
	masters := []string{srv.MasterSecret.Reveal()}
	for _, old := range srv.OldMasterSecrets {
		masters = append(masters, old.Reveal())
	}
	var err error
	a.keyring, err = tokenlib.NewKeyring(masters...)
	return err
}

func fill[T ~string](setting *T, generated string) {
	if *setting == "" {
		*setting = T(generated)
	}
}

// Close closes the databases.
func (a *App) Close() error {
	for _, c := range a.closers {
		c()
	}
	var errs []error
	for _, d := range a.databases {
		errs = append(errs, d.close())
	}
	a.databases, a.closers = nil, nil
	return errors.Join(errs...)
}

// Config is the configuration with the generated secrets.
func (a *App) Config() *Config { return a.cfg }

// Storage is the room of Sync's records, nil when it is off.
func (a *App) Storage() *syncstorage.Service { return a.storage }

// Accounts is the tokenserver, nil when it is off.
func (a *App) Accounts() *tokenserver.Service { return a.accounts }

// Records is the room of extensions' records, nil when it is off.
func (a *App) Records() *ext.Service { return a.records }

// Now is the server's clock.
func (a *App) Now() time.Time { return a.now() }

// Owner is whose records a storage user's are.
func (a *App) Owner(u *tokenserver.User) syncstorage.Owner {
	return syncstorage.Owner{UID: u.UID, FxAUID: u.Account().FxAUID, FxAKID: u.KeyID().String()}
}

// Sweep runs every sweep until nothing that has expired is left, and reports
// what each removed, in a line.
func (a *App) Sweep(ctx context.Context, report func(line string)) error {
	if a.storage != nil && a.cfg.OnSpanner() {
		report("expired records and batches: Spanner removes them by itself")
	}
	var errs []error
	for _, j := range a.jobs {
		n, err := sweep.RunOnce(ctx, j, a.now)
		report(fmt.Sprintf("%s: %d", j.Name, n))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.Name, err))
		}
	}
	return errors.Join(errs...)
}
