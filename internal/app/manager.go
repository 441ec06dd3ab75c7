package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// notify only logs failures: the service manager has its own timeout.
func (a *App) notify(state string) {
	if err := a.manager.Notify(state); err != nil {
		a.log.Warn("could not notify the service manager", "state", state, "error", err)
	}
}

// watch notifies the manager's watchdog without probing the listeners: under load the answer would be late, and a
// restart would not help.
func (a *App) watch(ctx context.Context) {
	if a.manager.Watchdog <= 0 {
		return
	}
	ticks := time.NewTicker(a.manager.Watchdog / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			a.notify("WATCHDOG=1")
		case <-ctx.Done():
			return
		}
	}
}

// Reload is how a server gets a new configuration.
type Reload struct {
	Signals <-chan os.Signal        // each asks for a reload; nil: none
	Read    func() (*Config, error) // as at the start; nil: unsupported
}

// reloads holds the state that reloads change.
type reloads struct {
	Reload
	current atomic.Pointer[Config]          // the configuration in use
	waiting atomic.Pointer[[]string]        // settings that need a restart
	refused atomic.Pointer[service.Finding] // why the latest reload failed; nil: it did not

	mu        sync.Mutex    // held during a reload
	serving   chan struct{} // closed when the handlers that a reload changes are complete
	unsettled chan struct{} // signals a database that read_only is not yet applied to
}

// begin must run before current is used.
func (r *reloads) begin(c *Config, how Reload) {
	r.Reload, r.serving, r.unsettled = how, make(chan struct{}), make(chan struct{}, 1)
	r.current.Store(c)
	r.waiting.Store(&[]string{})
}

// current returns the configuration in use. App.cfg has the first settings, which only a restart changes.
func (a *App) current() *Config { return a.reloads.current.Load() }

// awaitReloads reloads at each signal until ctx ends. It also repeats the change to read-only mode for databases that
// were away.
func (a *App) awaitReloads(ctx context.Context) {
	close(a.reloads.serving)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.reloads.Signals:
			_, _ = a.reload(ctx) // logged
		case <-a.reloads.unsettled:
			if clock.Sleep(ctx, time.Second) {
				a.settleReadOnly(ctx)
			}
		}
	}
}

// reload applies all changed settings or, if anything is invalid, none.
func (a *App) reload(ctx context.Context) (done overview.Reloaded, err error) {
	select {
	case <-a.reloads.serving:
	default:
		return done, errcode.New(errcode.Unavailable, "the server has not started yet")
	}
	a.reloads.mu.Lock()
	defer a.reloads.mu.Unlock()
	notified := a.manager.Reload(func() { done, err = a.readAgain(ctx) })
	if notified != nil {
		a.log.Warn("could not notify the service manager", "state", "RELOADING=1", "error", notified)
	}
	if err != nil {
		return done, a.refuseReload(err)
	}
	a.reloads.refused.Store(nil)
	a.reloads.waiting.Store(&done.Restart)
	if len(done.Applied) > 0 {
		a.log.Info("settings applied", "settings", done.Applied)
	}
	if len(done.Restart) > 0 {
		a.log.Warn("settings need a restart", "settings", done.Restart)
	}
	if len(done.Applied)+len(done.Restart) == 0 {
		a.log.Info("the configuration has not changed")
	}
	return done, nil
}

// refuseReload logs the problems and keeps them for the checks. It returns the error for an operator.
func (a *App) refuseReload(err error) error {
	text := err.Error()
	if invalid, ok := errors.AsType[*conf.Error](err); ok {
		text = invalid.Problems[0].String()
		if n := len(invalid.Problems); n > 1 {
			text = fmt.Sprintf("%d problems, the first: %s", n, text)
		}
		for _, p := range invalid.Problems[1:] {
			a.log.Error("configuration", "problem", p.String())
		}
	}
	a.log.Error("reload refused: the old settings stay in use", "problem", text)
	a.reloads.refused.Store(&service.Finding{
		State: service.Wrong, What: "reload", Says: "refused: " + text, Fix: "correct the configuration, and reload it again",
	})
	return errcode.New(errcode.Invalid, "nothing was applied: "+text)
}

// readAgain reads and checks the new configuration, and applies it only if everything is valid. Generated secrets,
// which no file contains, do not count as changed.
func (a *App) readAgain(ctx context.Context) (done overview.Reloaded, err error) {
	if a.reloads.Read == nil {
		return done, errors.New("this server cannot read its configuration again")
	}
	next, err := a.reloads.Read()
	if err != nil {
		return done, err
	}
	running := a.current()
	done = overview.Reloaded{Applied: []string{}, Restart: []string{}}
	for _, c := range conf.Changes(running.sections(), next.sections()) {
		switch {
		case c.Reloads:
			done.Applied = append(done.Applied, c.Path)
		case !slices.Contains(a.secrets.Settings, c.Path) || next.report.Where(c.Path) != "default": // otherwise it was generated
			done.Restart = append(done.Restart, c.Path)
		}
	}
	conf.Keep(next.sections(), running.sections())
	// Check again, because settings that require a restart keep their old values.
	unnoted := next.report
	if problems := next.problems(&unnoted); len(problems) > 0 {
		return overview.Reloaded{}, &conf.Error{Problems: problems}
	}
	if a.certificates != nil {
		if err := a.certificates.Reload(); err != nil {
			return overview.Reloaded{}, &conf.Error{Problems: []conf.Problem{{
				Where: next.report.Where("server.tls_cert_file"), Key: "server.tls_cert_file", What: "cannot be used with server.tls_key_file: " + err.Error(),
			}}}
		}
	}
	a.apply(ctx, next)
	return done, nil
}

// apply changes the running server. It cannot fail: everything was checked. Requests in progress keep their settings.
func (a *App) apply(ctx context.Context, next *Config) {
	s, l := &next.Server, &next.Log
	a.reloads.current.Store(next)
	_ = obs.SetLevel(a.level, l.Level) // valid, as are the networks
	for _, m := range a.muxes {
		m.Change(func(o *web.Options) { o.Quiet, o.ClientAddress = !l.Access, l.ClientAddress })
	}
	_ = a.resolver.Trust(s.TrustedProxies)
	if a.console != nil {
		_, _ = a.proxies.Trust(s.TrustedProxies), a.near.Trust(s.ConsoleNetworks)
		a.console.SetViewerToken(s.ViewerToken.Reveal())
	}
	a.gate.Resize(s.MaxRequests, s.QueueWait)
	a.memory.Resize(s.RequestMemory, s.MaxRequests, s.QueueWait)
	a.operatorMemory.Resize(OperatorMemory, s.MaxRequests, s.QueueWait)
	a.alerts.Set(next.Alerts)
	a.backups.Set(next.Backup)
	for _, open := range a.opened {
		if open.Reload == nil {
			continue
		}
		of := slices.IndexFunc(next.Services, func(s service.Service) bool { return s.Name == open.Name })
		open.Reload(next.Services[of].Config, s.QueueWait)
	}
	a.readOnly.Setting.Store(s.ReadOnly)
	a.settleReadOnly(ctx)
}

// settleReadOnly makes services read-only, or ends it, as server.read_only says. Failed databases are tried again by
// awaitReloads.
func (a *App) settleReadOnly(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if failed := a.readOnly.Settle(ctx); len(failed) > 0 {
		select {
		case a.reloads.unsettled <- struct{}{}:
		default:
		}
	}
}

// reloadFindings reports a refused reload, and settings that wait for a restart.
func (a *App) reloadFindings() (all []service.Finding) {
	if refused := a.reloads.refused.Load(); refused != nil {
		all = append(all, *refused)
	}
	for _, path := range *a.reloads.waiting.Load() {
		all = append(all, service.Finding{State: service.Warning, What: path, Says: "its new value needs a restart", Fix: "restart the server"})
	}
	return all
}
