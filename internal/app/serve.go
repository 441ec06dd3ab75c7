package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// Serve runs the listeners and the sweeps until ctx ends, then shuts down in
// order: not ready, drain, listeners, sweeps, relay. Addresses are printed to out.
func (a *App) Serve(ctx context.Context, out io.Writer) error {
	traces, err := obs.StartTraces(ctx, strings.TrimRight(a.cfg.Log.OTLPEndpoint, "/"), a.version.Version)
	if err != nil {
		return err
	}
	a.traces = traces
	defer a.flushTraces(ctx)
	mainServer, internalServer, err := a.clientServers()
	if err != nil {
		return err
	}
	endRelay, err := a.startRelay(ctx)
	if err != nil {
		return err
	}
	l, err := a.listen()
	if err != nil {
		return errors.Join(err, endRelay())
	}
	if host := a.cfg.Syncstorage.EmulatorHost; host != "" && a.cfg.Syncstorage.Enabled && a.cfg.OnSpanner() {
		a.log.Warn("on the emulator of Spanner: nothing is kept, and writes are done one after the other", "room", syncRoom, "emulator", host)
	}
	a.announce(out, l)
	a.notify("READY=1") // from here on connections wait for their turn, and none is refused

	var draining atomic.Bool
	// The admin listener and the sweeps outlive the main listener: metrics and
	// readiness are there while it drains.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var rest errgroup.Group
	if l.admin != nil {
		rest.Go(func() error {
			return web.Serve(background, web.NewServer(a.adminHandler(&draining), web.DefaultLimits(), a.log), l.admin, web.Drain{Grace: time.Second})
		})
	}
	rest.Go(func() error { a.settleSoon(background); return nil })
	rest.Go(func() error {
		a.sweep(background)
		return nil
	})
	drain := web.Drain{Delay: a.cfg.Server.DrainDelay, Grace: a.cfg.Server.ShutdownGrace}
	clients, ctx := errgroup.WithContext(ctx) // without one of them the other ends, too
	if l.internal != nil {
		clients.Go(func() error { return web.Serve(ctx, internalServer, l.internal, drain) })
	}
	clients.Go(func() error {
		drain := drain
		drain.NotReady = func() { draining.Store(true); a.log.Info("shutting down"); a.notify("STOPPING=1") }
		return web.Serve(ctx, mainServer, l.main, drain)
	})
	err = clients.Wait()
	stop()
	return errors.Join(err, rest.Wait(), endRelay()) // last, what the others have done
}

// clientServers are those of the main and the internal listener.
func (a *App) clientServers() (main, internal *http.Server, err error) {
	mainHandler, internalHandler, err := a.clientHandlers()
	if err != nil {
		return nil, nil, err
	}
	main = web.NewServer(mainHandler, a.cfg.Server.limits(), a.log)
	internal = web.NewServer(internalHandler, a.cfg.Server.limits(), a.log)
	if a.cfg.Server.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(a.cfg.Server.TLSCert, a.cfg.Server.TLSKey)
		if err != nil {
			return nil, nil, fmt.Errorf("server.tls_cert_file, tls_key_file: %w", err)
		}
		a.observeCertificate(cert.Leaf.NotAfter)
		for _, srv := range []*http.Server{main, internal} {
			srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
		}
	}
	return main, internal, nil
}

// listeners are nil where there is none.
type listeners struct{ main, admin, internal net.Listener }

func (a *App) listen() (l listeners, err error) {
	for _, open := range []struct {
		key, addr string
		into      *net.Listener
	}{
		{"server.listen", a.cfg.Server.Listen, &l.main},
		{"server.admin_listen", a.cfg.Server.AdminListen, &l.admin},
		{"server.internal_listen", a.cfg.Server.InternalListen, &l.internal},
	} {
		if open.addr == "" {
			continue
		}
		if *open.into, err = net.Listen("tcp", open.addr); err != nil {
			return listeners{}, errors.Join(fmt.Errorf("%s: %w", open.key, err), l.close())
		}
	}
	return l, nil
}

func (l listeners) close() (err error) {
	for _, one := range []net.Listener{l.main, l.admin, l.internal} {
		if one != nil {
			err = errors.Join(err, one.Close())
		}
	}
	return err
}

// settleSoon settles, now or when the databases are back. Readiness says
// meanwhile what is missing.
func (a *App) settleSoon(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for said := false; ; {
		err := a.settle(ctx)
		if err == nil {
			return
		}
		if !said {
			a.log.Warn("not all is ready; trying again every second", "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// announce prints where the server is and what its user does next.
func (a *App) announce(out io.Writer, l listeners) {
	base := a.address(l.main.Addr().String())
	var b strings.Builder
	line := func(what, where string) { fmt.Fprintf(&b, "  %-12s %s\n", what, where) }
	fmt.Fprintf(&b, "Holdfast %s\n\n", a.version)
	if a.publicURL() == "" {
		line("clients", base)
	} else {
		line("clients", base+" (listening on "+a.scheme()+"://"+l.main.Addr().String()+")")
	}
	if l.admin != nil {
		line("admin", "http://"+l.admin.Addr().String()+" (/readyz, /metrics)")
	}
	if l.internal != nil {
		line("internal", a.scheme()+"://"+l.internal.Addr().String())
	}
	for _, d := range a.databases {
		line(d.room, d.where)
	}
	if path, err := filepath.Abs(filepath.Join(a.data, SecretsFile)); err == nil {
		if _, err := os.Stat(path); err == nil {
			line("secrets", path)
		}
	}
	if a.accounts != nil {
		fmt.Fprintf(&b, "\nIn Firefox, before signing in to Sync, open about:config and set\n\n"+
			"  identity.sync.tokenserver.uri = %s/1.0/sync/1.5\n", base)
	}
	if a.records != nil {
		fmt.Fprintf(&b, "\nFor extensions, make a token of an install, by two UUIDs of your own, and use it at\n%s/ext/v1/installs/INSTALL:\n\n"+
			"  holdfast ext token --tenant TENANT --install INSTALL --namespace settings=rw\n", base)
	}
	b.WriteByte('\n')
	_, _ = io.WriteString(out, b.String())
}

// flushTraces sends the last spans, for a while.
func (a *App) flushTraces(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := a.traces.Close(ctx); err != nil {
		a.log.Warn("the last traces were not sent", "error", err)
	}
}

// unready says why the server is not ready, room by room; empty when it is.
func (a *App) unready(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	unready := map[string]error{}
	for _, c := range a.checks {
		if err := c.ping(ctx); err != nil {
			unready[c.room] = err
		}
	}
	return unready
}

// quietLog has warnings and errors only: requests that went well leave no line.
func (a *App) quietLog() *slog.Logger {
	return slog.New(leastWarn{a.log.Handler()})
}

// leastWarn drops what is less than a warning.
type leastWarn struct{ slog.Handler }

func (l leastWarn) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && l.Handler.Enabled(ctx, level)
}
