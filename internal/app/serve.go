package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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
// order: not ready, drain, listeners, sweeps. Addresses are printed to out.
func (a *App) Serve(ctx context.Context, out io.Writer) error {
	traces, err := obs.StartTraces(ctx, strings.TrimRight(a.cfg.Log.OTLPEndpoint, "/"), a.version.Version)
	if err != nil {
		return err
	}
	a.traces = traces
	defer a.flushTraces(ctx)
	main, err := a.listen("server.listen", a.cfg.Server.Listen)
	if err != nil {
		return err
	}
	var admin net.Listener
	if a.cfg.Server.AdminListen != "" {
		if admin, err = a.listen("server.admin_listen", a.cfg.Server.AdminListen); err != nil {
			return errors.Join(err, main.Close())
		}
	}
	srv := web.NewServer(a.mainHandler(), a.cfg.Server.limits(), a.log)
	if a.cfg.Server.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(a.cfg.Server.TLSCert, a.cfg.Server.TLSKey)
		if err != nil {
			return fmt.Errorf("server.tls_cert_file, tls_key_file: %w", err)
		}
		a.observeCertificate(cert.Leaf.NotAfter)
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	}
	if host := a.cfg.Syncstorage.EmulatorHost; host != "" && a.cfg.Syncstorage.Enabled && a.cfg.OnSpanner() {
		a.log.Warn("on the emulator of Spanner: nothing is kept, and writes are done one after the other", "room", syncRoom, "emulator", host)
	}
	a.announce(out, main, admin)
	a.notify("READY=1") // from here on connections wait for their turn, and none is refused

	var draining atomic.Bool
	// The admin listener and the sweeps outlive the main listener: metrics and
	// readiness are there while it drains.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var rest errgroup.Group
	if admin != nil {
		rest.Go(func() error {
			return web.Serve(background, web.NewServer(a.adminHandler(&draining), web.DefaultLimits(), a.log), admin, web.Drain{Grace: time.Second})
		})
	}
	rest.Go(func() error { a.settleSoon(background); return nil })
	rest.Go(func() error {
		a.sweep(background)
		return nil
	})
	err = web.Serve(ctx, srv, main, web.Drain{
		NotReady: func() { draining.Store(true); a.log.Info("shutting down"); a.notify("STOPPING=1") },
		Delay:    a.cfg.Server.DrainDelay,
		Grace:    a.cfg.Server.ShutdownGrace,
	})
	stop()
	return errors.Join(err, rest.Wait())
}

func (a *App) listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return l, nil
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
func (a *App) announce(out io.Writer, main, admin net.Listener) {
	base := a.address(main.Addr().String())
	var b strings.Builder
	line := func(what, where string) { fmt.Fprintf(&b, "  %-12s %s\n", what, where) }
	fmt.Fprintf(&b, "Holdfast %s\n\n", a.version)
	if a.publicURL() == "" {
		line("clients", base)
	} else {
		line("clients", base+" (listening on "+a.scheme()+"://"+main.Addr().String()+")")
	}
	if admin != nil {
		line("admin", "http://"+admin.Addr().String()+" (/readyz, /metrics)")
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
			"  identity.sync.tokenserver.uri = %s/1.0/sync/1.5\n\n", base)
	}
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
