package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync/atomic"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/certificates"
	"holdfast/internal/errcode"
	"holdfast/internal/guides"
	"holdfast/internal/web"
	"holdfast/internal/web/dockerflow"
	"holdfast/internal/web/rate"
)

// mux returns a listener's handler with the services' mounts; rest answers all other paths.
func (a *App) mux(listener string, resolver *web.Resolver, o web.Options, rest web.Service) *web.Mux {
	m := &web.Mux{Resolver: resolver, Options: o, Default: rest}
	a.muxes = append(a.muxes, m)
	for _, s := range a.opened {
		for _, mount := range s.Mounts {
			if mount.Listener == listener {
				mount.Name, mount.Turns = s.Name, s.turns
				mount.Reason = a.countRefusals(s)
				m.Mounts = append(m.Mounts, mount.Mount)
			}
		}
	}
	return m
}

// listenerHandler returns the handler for a listener's name. draining is true during a shutdown, for /readyz.
func (a *App) listenerHandler(name string, draining *atomic.Bool) http.Handler {
	switch name {
	case service.Admin:
		return a.adminHandler(draining)
	case service.Main:
		return a.mainHandler()
	case service.Redirect:
		return a.redirectHandler()
	}
	return a.otherHandler(name)
}

// options returns the options for client requests. Each mux gets a copy that a reload may change.
func (a *App) options() web.Options {
	o := web.Options{
		Log: a.log, Refused: a.refusals, Quiet: !a.cfg.Log.Access, ClientAddress: a.cfg.Log.ClientAddress,
		Observe: a.metrics.Request, Pace: a.cfg.Server.limits().Pace, Gate: a.gate, Memory: a.memory,
	}
	if a.traces != nil {
		o.Trace = a.traces.Trace
	}
	return o
}

// mainHandler serves clients. Paths that no service owns are the status page, Mozilla's operational paths, or a
// request for buckets that went to the wrong listener.
func (a *App) mainHandler() http.Handler {
	root := a.dockerflow()
	serve := func(w http.ResponseWriter, r *http.Request, at web.Address) error {
		if answerStray(w, r) {
			return nil
		}
		return root.Serve(w, r, at)
	}
	return a.mux(service.Main, a.resolver, a.options(), web.Service{
		Name: "server", Serve: serve, Error: a.writeRootError, Route: dockerflow.Label, Routes: dockerflow.Routes(),
	})
}

// writeRootError answers browsers with a page, and programs with JSON. If a setting turned the path's service off, the
// error is the reason.
func (a *App) writeRootError(w http.ResponseWriter, r *http.Request, err error) {
	if s, off := a.offAt(r.URL.Path); errcode.Is(err, errcode.NotFound) && off != "" {
		sendError(w, http.StatusNotFound, "no such path: "+s+" is off, because "+off)
		return
	}
	if errcode.Is(err, errcode.NotFound) && isBrowser(r) {
		sendPage(w, http.StatusNotFound, "text/html; charset=utf-8", nothingHere("Page not found", "/", "To the server status"))
		return
	}
	if errcode.Is(err, errcode.NotFound) && strings.HasPrefix(r.URL.Path, "/internal/") {
		sendError(w, http.StatusNotFound, "no such path: /internal/ is served at server.internal_listen only")
		return
	}
	dockerflow.WriteError(w, r, err)
}

// offAt finds the service that serves a path and is off for a reason that whyOff knows.
func (a *App) offAt(path string) (name, why string) {
	for _, s := range a.cfg.Services {
		for _, own := range append([]string{"/" + s.Name}, s.ProtocolPaths...) {
			if off := whyOff(s); off != "" && (path == own || strings.HasPrefix(path, own+"/")) {
				return s.Name, off
			}
		}
	}
	return "", ""
}

// redirectHandler answers the certificate authority and redirects everything else to the public URL. 308 keeps the
// method.
func (a *App) redirectHandler() http.Handler {
	to, _ := web.ParseOrigin(a.publicURL()) // always set with a domain
	to.Prefix = ""
	redirect := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RequestURI()
		if !strings.HasPrefix(path, "/") {
			path = "/"
		}
		http.Redirect(w, r, to.String()+path, http.StatusPermanentRedirect) //nolint:gosec // the host is that of the configuration
	}))
	if acme, ok := a.certificates.(*certificates.ACME); ok {
		redirect = acme.Handler(redirect)
	}
	rest := a.notFound(service.Redirect)
	rest.Serve = func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		redirect.ServeHTTP(w, r)
		return nil
	}
	return a.mux(service.Redirect, &web.Resolver{}, a.options(), rest)
}

// otherHandler serves the internal listener and the services' own listeners.
func (a *App) otherHandler(listener string) http.Handler {
	return a.mux(listener, &web.Resolver{}, a.options(), a.notFound(listener))
}

// notFound answers 404 and names the paths that the listener does serve; paths are those besides the services'.
func (a *App) notFound(listener string, paths ...string) web.Service {
	for _, s := range a.opened {
		for _, m := range s.Mounts {
			if m.Listener == listener {
				paths = append(paths, m.Paths...)
			}
		}
	}
	reasons := []string{"no such path: this listener serves no enabled service"}
	if len(paths) > 0 {
		reasons[0] = "no such path: expected " + strings.Join(paths, ", ")
	}
	for _, s := range a.cfg.Services {
		if off := whyOff(s); off != "" && listener == service.Internal {
			reasons = append(reasons, s.Name+" is off, because "+off)
		}
	}
	message := strings.Join(reasons, "; ")
	return web.Service{
		Name: "server", Route: func(string) string { return "other" }, Routes: web.NoRoutes,
		Serve: func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			sendError(w, http.StatusNotFound, message)
			return nil
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errcode.Is(err, errcode.Invalid) {
				sendError(w, http.StatusBadRequest, errcode.Message(err))
				return
			}
			sendError(w, http.StatusInternalServerError, "internal error")
		},
	}
}

// dockerflow returns Mozilla's operational paths. The sync service, which alone reports a quota, counts its
// connections.
func (a *App) dockerflow() *dockerflow.Handler {
	d := &dockerflow.Handler{
		Version: dockerflow.Version{Version: a.version.Version, Commit: a.version.Commit},
		Root:    a.statusPage,
		Ping: func(ctx context.Context) error {
			for name, err := range a.heartbeat(ctx) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		},
	}
	for _, s := range a.opened {
		if s.Quota == nil {
			continue
		}
		d.Quota = s.Quota
		d.Pool = func() (p dockerflow.Pool) {
			p.Active, p.Idle, p.Max = s.Databases[0].Connections()
			return p
		}
	}
	return d
}

// adminHandler serves the admin listener: the console, guides, health and metrics without a token, and everything else with
// the admin token. An unknown path needs the token, too, so that it tells nothing about the paths.
func (a *App) adminHandler(draining *atomic.Bool) http.Handler {
	open := http.NewServeMux()
	open.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	open.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { a.readyz(w, r, draining.Load()) })
	open.Handle("GET "+guides.Prefix, a.charged(guides.Memory, guides.New(a.consolePath()).ServeHTTP))
	open.Handle("GET /metrics", a.charged(metricsMemory, a.metrics.Handler().ServeHTTP))
	closed := a.closed()
	open.Handle("/", a.withToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if readsOnly(r, open, closed) {
			w.Header().Set("Allow", "GET, HEAD")
			sendError(w, http.StatusMethodNotAllowed, "this path supports GET, HEAD")
			return
		}
		closed.ServeHTTP(w, r)
	})))
	return adminHandler{pages: a.consoleHandler(), open: open, noToken: a.logNoToken, Handler: withJSONErrors(a.checkHost(open))}
}

// adminHandler chooses between the console and the API. Browsers that go astray get a page.
type adminHandler struct {
	http.Handler
	pages http.Handler // console; checks hosts itself and answers in HTML; nil if disabled
	open  *http.ServeMux

	noToken func(*http.Request) // logs a request that is refused because it has no token
}

func (h adminHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.pages != nil && console.Owns(r.URL.EscapedPath()) {
		h.pages.ServeHTTP(w, r)
		return
	}
	if h.pages != nil && isBrowser(r) && h.toConsole(w, r) {
		return
	}
	h.Handler.ServeHTTP(w, r)
}

// toConsole leads a browser without a token to the console. It returns false for the open paths, e.g. /metrics.
func (h adminHandler) toConsole(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/" {
		w.Header().Set("Location", console.Prefix)
		sendPage(w, http.StatusSeeOther, "text/html; charset=utf-8", nothingHere("This is the admin listener", console.Prefix, "To the console"))
		return true
	}
	if _, pattern := h.open.Handler(r); pattern != "/" {
		return false
	}
	h.noToken(r)
	sendPage(w, http.StatusUnauthorized, "text/html; charset=utf-8", nothingHere("This path does not exist, or is for programs with the admin token", console.Prefix, "To the console"))
	return true
}

// ServeMalformed implements web.MalformedHandler.
func (adminHandler) ServeMalformed(w http.ResponseWriter, _ *http.Request, status int, err error) {
	sendError(w, status, errcode.Message(err))
}

// readsOnly reports whether a request with another method has a path that supports only GET. A ServeMux with a handler
// for all paths does not answer 405 itself.
func readsOnly(r *http.Request, muxes ...*http.ServeMux) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	get := r.WithContext(r.Context())
	get.Method = http.MethodGet
	return slices.ContainsFunc(muxes, func(m *http.ServeMux) bool {
		_, pattern := m.Handler(get)
		return strings.HasPrefix(pattern, "GET ")
	})
}

// closed returns the paths that need the admin token: operations, version and profiles.
func (a *App) closed() *http.ServeMux {
	mux, charged := http.NewServeMux(), a.charged
	mux.Handle("GET /version", charged(0, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.version)
	}))
	mux.Handle("GET "+StatePath, charged(0, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.state(r.Context()))
	}))
	o := a.options()
	o.Gate, o.Memory, o.Trace = nil, a.operatorMemory, nil // operators do not wait for clients
	own := a.mountOf("", a.operations)
	paths := slices.Concat([]string{"/livez", "/readyz", "/metrics", "/version", StatePath}, own.Paths, []string{"/__error__", "/debug/pprof/"})
	services := a.mux(service.Admin, &web.Resolver{}, o, a.notFound(service.Admin, paths...))
	own.Name = "server"
	services.Mounts = append(services.Mounts, own.Mount, web.Mount{Service: failing(), Owns: func(path string) bool { return path == errorPath }})
	mux.Handle("/", services)
	mux.Handle("GET /debug/pprof/", charged(profileMemory, pprof.Index))
	mux.Handle("GET /debug/pprof/cmdline", charged(0, pprof.Cmdline))
	mux.Handle("GET /debug/pprof/profile", charged(profileMemory, pprof.Profile))
	mux.Handle("GET /debug/pprof/symbol", charged(0, pprof.Symbol))
	mux.Handle("GET /debug/pprof/trace", charged(profileMemory, pprof.Trace))
	return mux
}

const (
	// OperatorMemory is the memory for requests on the admin listener, in bytes: six profiles at once. It is apart
	// from the clients' budget, so that operators can act when that is used up.
	OperatorMemory = 48 << 20

	metricsMemory = 1 << 20 // per scrape: values and text
	profileMemory = 8 << 20 // per profile
)

// charged charges need bytes of operators' memory while h runs.
func (a *App) charged(need int64, h http.HandlerFunc) http.Handler {
	return web.Charge(a.operatorMemory, need, h)
}

// errorPath always fails, to test error logs and metrics. It requires the admin token, because it writes to the log.
const errorPath = "/__error__"

// failing serves errorPath.
func failing() web.Service {
	return web.Service{
		Name: "server", Route: func(string) string { return errorPath }, Routes: web.NoRoutes,
		Serve: func(http.ResponseWriter, *http.Request, web.Address) error {
			return errcode.New(errcode.Internal, "test error requested by "+errorPath)
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			sendError(w, http.StatusInternalServerError, errcode.Message(err))
		},
	}
}

// readyz answers 503 with the reasons for each service, also while the server drains, so that load balancers send no
// new requests.
func (a *App) readyz(w http.ResponseWriter, r *http.Request, draining bool) {
	unready := a.unready(r.Context())
	if draining {
		unready = map[string]error{"server": errors.New("shutting down")}
	}
	if len(unready) == 0 {
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(unready)) {
		reasons = append(reasons, fmt.Sprintf("%s: %v", name, unready[name]))
	}
	sendError(w, http.StatusServiceUnavailable, strings.Join(reasons, "; "))
}

// withToken requires the admin token. Wrong tokens count together with those at the console's sign-in. A request without
// a token is no guess.
func (a *App) withToken(next http.Handler) http.Handler {
	want := a.cfg.Server.AdminToken.Reveal()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if token = strings.Trim(token, " "); token == "" || !strings.EqualFold(scheme, "Bearer") {
			a.logNoToken(r)
			refuseToken(w)
			return
		}
		by := rate.Guesser{Address: a.resolver.Address(r), Network: a.resolver.Network(r)}
		right := rate.Same(token, want)
		if ok, state := a.guesses.Allow(by, right); !ok {
			a.log.Warn("admin token refused", "status", http.StatusTooManyRequests, "reason", "too many attempts", "client_address", by.Network)
			state.SetHeaders(w.Header())
			sendError(w, http.StatusTooManyRequests, "too many wrong tokens from this address: wait for the time in the header Retry-After")
			return
		}
		if !right {
			a.log.Warn("admin token refused", "status", http.StatusUnauthorized, "reason", "wrong token", "client_address", by.Network, "error", errWrongToken)
			refuseToken(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var (
	errWrongToken = errcode.New(errcode.Denied, "the token is not the admin token of this server")
	errNoToken    = errcode.New(errcode.Denied, "the request has no admin token, and its path is not open to all")
)

// logNoToken keeps the request with the refused requests, because it is no guess that needs a warning.
func (a *App) logNoToken(r *http.Request) {
	log := a.refusals.With("status", http.StatusUnauthorized)
	if a.cfg.Log.ClientAddress {
		log = log.With("client_address", a.resolver.Network(r))
	}
	log.Info("request", "error", errNoToken)
}

// refuseToken answers 401.
func refuseToken(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast admin"`)
	sendError(w, http.StatusUnauthorized, "admin token required: send the header Authorization: Bearer TOKEN")
}

// checkHost accepts an IP address, localhost or the listen address as Host. This prevents DNS rebinding: a page whose
// name resolves to 127.0.0.1 could otherwise use the operator's browser.
func (a *App) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.isOwnHost(r.Host) {
			sendError(w, console.ErrHost.Status, console.ErrHost.Message)
			return
		}
		next.ServeHTTP(w, r)
	})
}
