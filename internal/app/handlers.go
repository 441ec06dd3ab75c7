package app

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"

	exthttp "holdfast/internal/extstorage/httpapi"
	synchttp "holdfast/internal/syncstorage/httpapi"
	tokenhttp "holdfast/internal/tokenserver/httpapi"
	"holdfast/internal/web"
)

// clientHandlers are those of the main listener and of the internal one, which
// is for services. They share what bounds their requests.
func (a *App) clientHandlers() (main, internal http.Handler, err error) {
	gate := web.NewGate(a.cfg.Server.MaxRequests, a.cfg.Server.QueueWait)
	a.observeGate(gate)
	opts := a.handlerOptions()
	room := func(r web.Room) http.Handler {
		r.Gate = gate
		return a.traces.Handler(r.Handler(opts), r.Route)
	}
	var rates *exthttp.Rates
	if a.records != nil && a.cfg.Extstorage.RateLimits {
		if rates, err = exthttp.NewRates(a.cfg.Extstorage.Rates, a.now); err != nil {
			return nil, nil, err
		}
	}
	return a.mainHandler(room, gate, rates), a.internalHandler(room, rates), nil
}

// handlerOptions are what the rooms of all listeners have in common.
func (a *App) handlerOptions() web.Options {
	opts := web.Options{Log: a.log, Observe: a.metrics.Request, Pace: a.cfg.Server.limits().Pace}
	if !a.cfg.Log.Access {
		opts.Log = a.quietLog()
	}
	return opts
}

// wrap makes the handler of a room.
type wrap func(web.Room) http.Handler

// mainHandler gives each request to the room that its path belongs to.
func (a *App) mainHandler(room wrap, gate *web.Gate, rates *exthttp.Rates) http.Handler {
	var storage, tokens, records http.Handler
	if a.storage != nil {
		h := &synchttp.Handler{
			Service: a.storage, Keyring: a.keyring, Clock: a.now, TimeSkew: a.cfg.Syncstorage.HawkTimeSkew,
			Address: a.resolver.Resolve, Backoff: gate.Backoff,
		}
		storage = room(web.Room{Name: syncRoom, Serve: h.Serve, Error: a.countRefusals(syncRoom, h.WriteError), Route: a.label(synchttp.Label)})
	}
	if a.accounts != nil {
		h := &tokenhttp.Handler{Service: a.accounts, Clock: a.now, Address: a.resolver.Resolve}
		tokens = room(web.Room{Name: tokenRoom, Serve: h.Serve, Error: a.countRefusals(tokenRoom, tokenhttp.WriteError), Route: a.label(tokenhttp.Label)})
	}
	if a.records != nil {
		h := &exthttp.Handler{
			Service: a.records, Tokens: a.tokens, Clock: a.now, Address: a.resolver.Resolve, Rates: rates, Timeout: a.cfg.Extstorage.RequestTimeout,
		}
		records = room(web.Room{
			Name: extRoom, Error: a.recordMetrics.writer(a.countRefusals(extRoom, exthttp.WriteError)), Route: a.label(exthttp.Label),
			Serve: a.recordMetrics.count(h.Serve, func(r *http.Request) string { return operationOf(exthttp.Label(a.resolver.Path(r)), r.Method) }),
		})
	}
	// Monitors get an answer also when everything else has to wait.
	root := web.Room{Name: "server", Serve: a.dockerflow().Serve, Error: synchttp.WriteError, Route: a.label(synchttp.Label)}.Handler(a.handlerOptions())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := a.resolver.Path(r)
		switch {
		case storage != nil && synchttp.Owns(path):
			storage.ServeHTTP(w, r)
		case tokens != nil && tokenhttp.Owns(path):
			tokens.ServeHTTP(w, r)
		case records != nil && exthttp.Owns(path):
			records.ServeHTTP(w, r)
		default:
			root.ServeHTTP(w, r)
		}
	})
}

// internalHandler serves those who speak for installs of extensions.
func (a *App) internalHandler(room wrap, rates *exthttp.Rates) http.Handler {
	if a.records == nil {
		return http.NotFoundHandler()
	}
	h := &exthttp.Runner{Service: a.records, Tokens: a.tokens, Clock: a.now, Rates: rates, Timeout: a.cfg.Extstorage.RequestTimeout}
	return room(web.Room{
		Name: extRoom, Serve: a.recordMetrics.count(h.Serve, envelopeOf), Error: a.recordMetrics.writer(a.countRefusals(extRoom, exthttp.WriteInnerError)),
		Route: func(r *http.Request) string { return exthttp.LabelRunner(r.URL.EscapedPath()) },
	})
}

// label names the route of a request by its inner path.
func (a *App) label(of func(path string) string) func(*http.Request) string {
	return func(r *http.Request) string { return of(a.resolver.Path(r)) }
}

func (a *App) dockerflow() *synchttp.Dockerflow {
	d := &synchttp.Dockerflow{
		Version: synchttp.Version{Version: a.version.Version, Commit: a.version.Commit},
		Log:     a.log, Address: a.resolver.Resolve, DocumentsLink: a.cfg.Syncstorage.DocumentsLink,
		Ping: func(ctx context.Context) error {
			for room, err := range a.unready(ctx) {
				return fmt.Errorf("%s: %w", room, err)
			}
			return nil
		},
	}
	if a.storage == nil {
		return d
	}
	q := a.storage.Quota()
	d.Quota = &q
	for _, db := range a.databases {
		if db.room == syncRoom {
			d.Pool = func() (p synchttp.Pool) {
				p.Active, p.Idle, p.Max = db.connections()
				return p
			}
		}
	}
	return d
}

// adminHandler serves health and metrics to everybody who reaches the admin
// listener, and the rest to who has the admin token.
func (a *App) adminHandler(draining *atomic.Bool) http.Handler {
	open := http.NewServeMux()
	open.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	open.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { a.readyz(w, r, draining.Load()) })
	open.Handle("GET /metrics", a.metrics.Handler())
	open.Handle("/", a.withToken(a.closed()))
	return a.checkHost(open)
}

// closed is what the admin token opens.
func (a *App) closed() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"version": a.version.Version, "commit": a.version.Commit})
	})
	if a.records != nil {
		h := &exthttp.Admin{Service: a.records, Clock: a.now}
		mux.Handle("/ext/installs/", web.Room{
			Name: extRoom, Serve: h.Serve, Error: exthttp.WriteInnerError, Route: func(*http.Request) string { return "installs" },
		}.Handler(a.handlerOptions()))
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func (a *App) readyz(w http.ResponseWriter, r *http.Request, draining bool) {
	unready := a.unready(r.Context())
	if draining {
		unready = map[string]error{"server": errors.New("shutting down")}
	}
	if len(unready) == 0 {
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for room, err := range unready {
		fmt.Fprintf(w, "%s: %v\n", room, err)
	}
}

func (a *App) withToken(next http.Handler) http.Handler {
	want := []byte("Bearer " + a.cfg.Server.AdminToken.Reveal())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast admin"`)
			http.Error(w, "the admin token is wanted", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests that name another host than the one that is
// listened on: a page whose name was made to point at 127.0.0.1 has a browser
// send such.
func (a *App) checkHost(next http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(a.cfg.Server.AdminListen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		ip := net.ParseIP(host)
		if ip == nil && !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, own) {
			http.Error(w, "this is not a name of the admin listener", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
