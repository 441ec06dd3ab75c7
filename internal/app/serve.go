package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/fserror"
	"holdfast/internal/listen"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	"holdfast/internal/replication"
	"holdfast/internal/web"
)

// Run opens the services, serves until ctx ends, and closes them. With log.format json it logs errors and returns only
// the exit status, because all output must be JSON.
func Run(ctx context.Context, o Options, out io.Writer, notices []string) error {
	o.LogTo = newTail(o.LogTo)
	log, err := obs.NewLog(o.LogTo, o.Config.Log.Level, o.Config.Log.Format)
	if err != nil {
		return err
	}
	for _, n := range notices {
		log.Warn("configuration", "notice", n)
	}
	a, err := Open(ctx, o)
	if err == nil {
		err = errors.Join(a.Serve(ctx, out), a.Close())
	}
	err = fserror.Explain(err)
	switch {
	case err == nil:
		log.Info("server stopped")
	case o.Config.Log.Format == "json":
		log.Error("server stopped", "error", err)
		return &service.ExitError{Status: 1}
	}
	return err
}

// Serve runs the listeners and sweeps until ctx ends, then shuts down in this order: readiness, drain delay,
// listeners, sweeps, services' background work.
func (a *App) Serve(ctx context.Context, out io.Writer) error {
	a.started = a.now()
	traces, err := a.on.StartTraces(ctx, strings.TrimRight(a.cfg.Log.OTLPEndpoint, "/"), a.version.Version, a.log)
	if err != nil {
		return err
	}
	a.traces = traces
	defer a.flushTraces(ctx)
	if err := a.openCertificates(); err != nil {
		return err
	}
	if err := a.startSecrets(ctx); err != nil {
		return err
	}
	stopServices, err := a.startServices(ctx)
	if err != nil {
		return err
	}
	stop, err := a.startReplica(ctx)
	if err != nil {
		return errors.Join(err, stopServices())
	}
	closeFiles := func() error { return a.replication.CloseFiles(ctx) }
	stopServices = inOrder(closeFiles, stopServices, stop) // services write until they are stopped
	listeners, err := a.listen()
	if err != nil {
		return errors.Join(err, stopServices())
	}
	a.readOnlyAtStart(ctx)
	announced := a.announce(out, listeners)
	adjustLimit := a.limitMemory() // logs, so it follows the announcement, whose first line names the program
	a.notify("READY=1")            // the sockets listen: no connection is refused from here on

	var draining atomic.Bool
	// The admin listener and the sweeps outlive the other listeners, so that metrics and readiness are available
	// while those drain.
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var rest errgroup.Group
	rest.Go(func() error { a.start(background, announced); return nil })
	rest.Go(func() error { a.overview.Run(background); return nil })
	rest.Go(func() error { a.watch(background); return nil })
	rest.Go(func() error { a.alerts.Run(background); return nil })
	rest.Go(func() error { a.backups.Run(background); return nil })
	rest.Go(func() error { a.checks.Run(background, a.now, a.checkRunning); return nil })
	rest.Go(func() error { tendMemory(background, a.memory, adjustLimit); return nil })
	rest.Go(func() error { a.sweep(background); return nil })
	if a.certificates != nil {
		rest.Go(func() error { a.certificates.Run(background); return nil })
	}
	drain := web.Drain{Times: a.drainTimes}
	clients, ctx := errgroup.WithContext(ctx)
	clients.Go(func() error { return a.guard.Await(ctx) })
	for _, l := range listeners {
		drain := drain
		server := a.newServer(l.name, &draining)
		switch l.name {
		case service.Admin:
			rest.Go(func() error { return web.Serve(background, server, l.Listener, web.Drain{Grace: time.Second}) })
			continue
		case service.Main:
			drain.NotReady = func() { draining.Store(true); a.log.Info("shutting down"); a.notify("STOPPING=1") }
		}
		clients.Go(func() error { return web.Serve(ctx, server, l.Listener, drain) })
	}
	rest.Go(func() error { a.awaitReloads(background); return nil })
	err = clients.Wait()
	end()
	return errors.Join(err, rest.Wait(), stopServices()) // services publish last, after all writes
}

// newServer returns the HTTP server of a listener. The settings of limits do not concern operators.
func (a *App) newServer(listener string, draining *atomic.Bool) *web.Server {
	limits := a.cfg.Server.limits()
	if listener == service.Admin {
		limits = web.DefaultLimits()
	}
	server := web.NewServer(a.instance.Handler(listener, a.listenerHandler(listener, draining)), limits, a.log)
	server.TLSConfig = a.tlsConfig(listener)
	return server
}

// drainTimes returns the settings at shutdown, which a reload may have changed.
func (a *App) drainTimes() (delay, grace time.Duration) {
	s := &a.current().Server
	return s.DrainDelay, s.ShutdownGrace
}

// readOnlyAtStart skips unavailable and unmigrated databases, which become read-only later.
func (a *App) readOnlyAtStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_ = a.readOnly.Settle(ctx)
}

// inOrder returns a function that calls all, also after errors.
func inOrder(all ...func() error) func() error {
	return func() (err error) {
		for _, fn := range all {
			err = errors.Join(err, fn())
		}
		return err
	}
}

// startReplica starts the replica, if there is one. stop sends the last changes.
func (a *App) startReplica(ctx context.Context) (stop func() error, err error) {
	a.replication, err = replication.Open(ctx, replication.Options{
		Settings: a.cfg.Replica, Clouds: a.on.Clouds(), Data: a.data, Services: a.running(), Known: backup.NamesOf(a.cfg.Services), Clock: a.now, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.observeReplica()
	a.replication.Start()
	return func() error { return a.replication.Close(ctx) }, nil
}

// startServices starts the services' background work and jobs. stop ends them in reverse order: jobs before the
// service that they use.
func (a *App) startServices(ctx context.Context) (stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, stop := range slices.Backward(stops) {
			err = errors.Join(err, stop())
		}
		return err
	}
	for _, s := range a.opened {
		if s.Start != nil {
			stopService, err := s.Start(ctx)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			stops = append(stops, stopService)
		}
		stops = append(stops, a.beginRuns(ctx, s.Name, s.operations)) // end before the service
	}
	stops = append(stops, a.beginRuns(ctx, "server", a.operations))
	return stop, nil
}

// beginRuns lets operations run in the background; stop ends them.
func (a *App) beginRuns(ctx context.Context, of string, all []operate.Operation) (stop func() error) {
	runs := operate.RunsOf(all)
	if runs == nil {
		return func() error { return nil }
	}
	runs.Begin(context.WithoutCancel(ctx), a.now, a.log.With("service", of))
	return func() error { runs.End(); return nil }
}

// openCertificates leaves a.certificates nil without TLS.
func (a *App) openCertificates() (err error) {
	s := &a.cfg.Server
	switch {
	case s.Domain != "":
		a.certificates, err = certificates.OpenACME(certificates.ACMEOptions{
			Options: a.certificateOptions(), Domain: s.Domain, Data: a.data, Directory: s.ACMEDirectory, RootFile: s.ACMERootFile,
			Email: s.ACMEEmail, Listen: s.Listen, HTTPListen: s.HTTPListen,
		})
		if err != nil {
			return fmt.Errorf("server.domain: %w", err)
		}
	case s.TLSCert != "":
		a.certificates, err = certificates.OpenFiles(s.TLSCert, s.TLSKey, a.certificateOptions())
		if err != nil {
			return fmt.Errorf("server.tls_cert_file, tls_key_file: %w", err)
		}
	}
	return nil
}

// tlsConfig returns nil for a listener without TLS.
func (a *App) tlsConfig(listener string) *tls.Config {
	if a.certificates == nil || listener == service.Redirect || listener == service.Admin && !a.cfg.Server.adminHasTLS() {
		return nil
	}
	return a.certificates.TLS()
}

// listener is an open socket with its listener's name.
type listener struct {
	name string
	net.Listener
}

// listeners returns all configured listeners, also those without an address.
func (c *Config) listeners() []service.Listener {
	all := []service.Listener{
		{Name: service.Main, Setting: "server.listen", Address: c.Server.Listen},
		{Name: service.Admin, Setting: "server.admin_listen", Address: c.Server.AdminListen},
		{Name: service.Internal, Setting: "server.internal_listen", Address: c.Server.InternalListen},
	}
	if c.Server.Domain != "" {
		all = append(all, service.Listener{Name: service.Redirect, Setting: "server.http_listen", Address: c.Server.HTTPListen})
	}
	for _, s := range c.enabled() {
		if s.Listeners != nil {
			all = append(all, s.Listeners()...)
		}
	}
	return all
}

// closed closes sockets after an error and returns it.
func closed(all []listener, err error) error {
	for _, open := range all {
		err = errors.Join(err, open.Close())
	}
	return err
}

// listen opens all sockets, or takes them from systemd. An error closes those that are open.
func (a *App) listen() (all []listener, err error) {
	for _, c := range a.cfg.listeners() {
		if c.Address == "" {
			continue
		}
		l := a.manager.Sockets.Take(c.Address)
		if l == nil {
			if l, err = net.Listen("tcp", c.Address); err != nil {
				f := listen.Refused(c, err)
				return nil, closed(all, fmt.Errorf("%s: %s; %s", c.Setting, f.Says, f.Fix))
			}
		}
		all = append(all, listener{c.Name, l})
		if c.Name == service.Admin {
			if err := a.refuseShortTokens(l.Addr()); err != nil {
				return nil, closed(all, err)
			}
		}
	}
	if unused := a.manager.Sockets; len(unused) > 0 { // its clients would wait forever
		return nil, closed(all, fmt.Errorf("systemd listens on %s for this server, but no setting uses this address: set it, or remove the line from the .socket unit", unused[0].Addr()))
	}
	a.addresses = map[string]string{}
	for _, l := range all {
		a.addresses[l.name] = l.Addr().String()
	}
	return all, nil
}

// refuseShortTokens refuses tokens of operators that other machines could guess at the admin listener's real address. The
// check of the configuration sees neither a token in the secrets file nor where a name, such as localhost, leads. Only
// this machine reaches a Unix socket.
func (a *App) refuseShortTokens(at net.Addr) error {
	if at.Network() == "unix" || listen.IsLoopback(at.String()) {
		return nil
	}
	if all := a.cfg.Server.shortTokens(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// flushTraces sends the last traces, for a limited time.
func (a *App) flushTraces(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if a.traces == nil {
		return
	}
	if err := a.traces.Close(ctx); err != nil {
		a.log.Warn("could not send traces", "error", err)
	}
}
