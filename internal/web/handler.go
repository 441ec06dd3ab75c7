package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
	"holdfast/internal/fserror"
	"holdfast/internal/ident"
)

// Handler answers a request, or returns an error for the service's ErrorWriter. An error after the response began
// closes the connection, so that a part is not mistaken for the whole. Errors are logged, so they must not quote
// client input. A handler refuses a request whose Address has an Err.
type Handler func(http.ResponseWriter, *http.Request, Address) error

// Answered is an error that the handler wrote into its response.
type Answered struct{ Err error }

// Error returns Err's text.
func (a *Answered) Error() string { return a.Err.Error() }

// Unwrap returns Err.
func (a *Answered) Unwrap() error { return a.Err }

// ErrorWriter writes an error in the protocol's form. It must set a status and write a body. The Mux has set
// X-Request-Id, and Retry-After for fairshare.ErrFull; r is the request that the handler got.
type ErrorWriter func(http.ResponseWriter, *http.Request, error)

// Service is an HTTP API, e.g. that of sync storage. Name, Serve, Error and Route are required.
type Service struct {
	Name  string      // for logs and metrics, e.g. "sync"
	Serve Handler     // answers all requests to paths that the service owns
	Error ErrorWriter // writes Serve's errors

	// Route returns a raw path's route for logs and metrics, from a small fixed set.
	Route func(path string) string

	// Routes lists all labels with their methods; see RoutesOf. The handler answers other paths and methods with 404 or
	// 405. If Routes is nil, the mux does not know them. NoRoutes stands for a service without routes.
	Routes []Route

	// Conditions, if set, returns the condition headers that the request's route applies. The mux refuses others on
	// writes, and all of them if Conditions is nil.
	Conditions func(*http.Request, Address) Conditions

	// Reason, if set, returns why a request was refused, for metrics and logs, from a small fixed set; "" for other
	// errors.
	Reason func(error) string

	// Turns limits database requests, because the database does not share turns fairly among clients.
	Turns *fairshare.Turns
}

// Route is a label returned by Service.Route, and a method.
type Route struct{ Label, Method string }

// NoRoutes is a Service.Routes for handlers that answer all requests with an error or a redirect.
var NoRoutes = []Route{}

// RoutesOf returns the routes in a table of methods by resource. label returns a resource's route label; table is
// indexed by the resource.
func RoutesOf[Resource ~uint8, Action any](label func(Resource) string, table []map[string]Action) (all []Route) {
	for i, methods := range table {
		for method := range methods {
			all = append(all, Route{label(Resource(i)), method})
		}
	}
	return all
}

// Mount is a service with its paths on a listener.
type Mount struct {
	Service
	Owns func(path string) bool // path is raw, without the public prefix
}

// Mux passes a listener's requests to the service that owns the path. It is an http.Handler for NewServer, and a
// MalformedHandler. Set the fields before the first request.
type Mux struct {
	Resolver *Resolver // determines the public address; required
	Options  Options   // for all services; see Change
	Mounts   []Mount   // the first owner serves a path
	Default  Service   // serves the paths that nobody owns

	changed atomic.Pointer[Options] // replaces Options once Change was called
}

// Change changes the options for future requests. change gets a copy to modify. Concurrent calls may lose a change;
// the server calls it only when it reloads settings.
func (m *Mux) Change(change func(*Options)) {
	o := *m.options()
	change(&o)
	m.changed.Store(&o)
}

// options returns the current options.
func (m *Mux) options() *Options {
	if o := m.changed.Load(); o != nil {
		return o
	}
	return &m.Options
}

// ServeHTTP serves a request; see handle.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := m.Resolver.Resolve(r)
	m.serve(m.owner(at.Path), w, r, at)
}

// owner returns the service that owns a raw path.
func (m *Mux) owner(path string) *Service {
	for i := range m.Mounts {
		if m.Mounts[i].Owns(path) {
			return &m.Mounts[i].Service
		}
	}
	return &m.Default
}

// serve wraps handle in a trace, if requests are traced.
func (m *Mux) serve(service *Service, w http.ResponseWriter, r *http.Request, at Address) {
	route := service.Route(at.Path)
	if m.options().Trace == nil {
		m.handle(service, w, r, at, route)
		return
	}
	m.options().Trace(w, r, route, func(w http.ResponseWriter, r *http.Request) {
		m.handle(service, w, r, at, route)
	})
}

// Handler returns a Mux with only this service. Its requests need no public URL: the Host header says the address.
func (service Service) Handler(o Options) http.Handler {
	return &Mux{Resolver: &Resolver{}, Options: o, Default: service}
}

// Options apply to a listener's services.
type Options struct {
	Log *slog.Logger // access log, and errors; required

	Quiet bool // log only requests that failed because of the server

	// Refused, if set, gets the requests with status 401 or 403 that Quiet or the log's level leaves out, so that an
	// operator finds the reason.
	Refused *slog.Logger

	// ClientAddress logs the client's IP address, and each request with a Reason even if Quiet is set.
	ClientAddress bool

	// Gate provides the slots of AcquireSlot; may be nil. Listeners may share it.
	Gate *Gate

	// Memory, if set, limits the requests' bytes; see ChargeMemory, StreamBody and StaticBody. Listeners may share it.
	Memory *Memory

	// Trace, if set, calls next within a trace span named after the route. It may pass another request and
	// ResponseWriter.
	Trace func(w http.ResponseWriter, r *http.Request, route string, next http.HandlerFunc)

	// Observe, if set, is called for every request. method and status come from small fixed sets; 499 means that the
	// client closed the connection.
	Observe func(service, route, method string, status int, d time.Duration)

	Pace Rate // minimum rate for bodies and responses; the zero value means no limit
}

// statusClientClosed is below 500, because the server did not fail.
const statusClientClosed = 499

// handle serves a request. It sets X-Request-Id in the response to the client's ID if that is valid, and otherwise to a
// new ID. An ErrorWriter reads it there.
func (m *Mux) handle(service *Service, w http.ResponseWriter, r *http.Request, at Address, route string) {
	o := m.options()
	start := time.Now()
	id := r.Header.Get("X-Request-Id")
	if !ident.ValidRequestID(id) {
		id = ident.New()
	}
	w.Header().Set("X-Request-Id", id)
	body := paceBody(w, r, o.Pace)
	rec := newResponse(w, body, o.Pace)
	if rec.gate = o.Gate; o.Gate != nil {
		o.Gate.open.Add(1)
		defer o.Gate.open.Add(-1)
	}
	if rec.turns = service.Turns; rec.turns != nil {
		rec.kind = fairshare.Kind{Method: method(r.Method), Route: route}
	}
	rec.resolver, rec.memory = m.Resolver, o.Memory
	r = rec.of(r)
	defer rec.releaseMemory() // even if an error writer panics

	err := rec.chargeHeader(r)
	if err == nil {
		err = service.serve(rec, rec.chargeBody(r), at)
	}
	if err == nil {
		err = rec.full
	}
	begun := rec.status != 0
	left := err != nil && clientClosed(r, body, err)
	reason := ""
	switch {
	case begun:
	case err == nil:
		w.Header().Set("Content-Length", "0")
		rec.WriteHeader(http.StatusOK)
	default:
		if errors.Is(err, fairshare.ErrFull) {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds()))
		}
		if service.Reason != nil {
			reason = service.Reason(err)
		}
		service.Error(rec, r, err) // the client may have closed only its side of the connection
	}
	x := exchange{id: id, route: route, method: method(r.Method), status: rec.status, bytes: rec.pace.bytes, start: start, took: time.Since(start), left: left, reason: reason}
	if left && !begun {
		x.status = statusClientClosed
	}
	if o.Observe != nil {
		o.Observe(service.Name, x.route, x.method, x.status, x.took)
	}
	if o.ClientAddress {
		if ip, ok := m.Resolver.Client(r); ok {
			x.client = ip.String()
		}
	}
	service.log(r.Context(), o, x, err)
	if rec.header > 0 && r.ProtoMajor > 1 {
		// net/http keeps the request until the client has read the answer. The header stays charged as long.
		_ = rec.FlushError()
	}
	rec.releaseMemory()
	_, answered := errors.AsType[*Answered](err)
	if begun && err != nil && !answered || rec.full != nil {
		panic(http.ErrAbortHandler)
	}
	rec.wait(time.Now(), 0) // for the buffered rest of the response
	if body != nil {
		body.linger()
	}
}

// serve checks conditions and runs the handler. A panic becomes an Internal error, because a response may still be
// possible.
func (service *Service) serve(w *response, r *http.Request, at Address) (err error) {
	defer ReleaseSlot(r)
	defer func() {
		if p := recover(); p != nil {
			err = errcode.Wrap(errcode.Internal, "internal error", &panicked{p, debug.Stack()})
		}
	}()
	if err := service.checkConditions(r, at); err != nil {
		return err
	}
	err = service.Serve(w, r, at)
	return errcode.Explain(err, fserror.Short(err), fserror.Advice(err))
}

// panicked is a handler's panic; only the log shows the stack.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// clientClosed reports whether the client closed the connection. A slow body also ends the context, but its client is
// still connected.
func clientClosed(r *http.Request, body *pacedBody, err error) bool {
	_, bug := errors.AsType[*panicked](err)
	return errors.Is(r.Context().Err(), context.Canceled) && (body == nil || !body.late) && !bug
}

// method maps unknown methods to "other", because each method creates a metric.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// exchange holds the values for a line in the access log.
type exchange struct {
	id, route, method string
	status            int
	bytes             int64 // of the response body
	start             time.Time
	took              time.Duration
	left              bool   // the client closed the connection early
	client            string // IP address, if logged
	reason            string // see Service.Reason
}

// log omits path, query, header and body, which are secret or private.
func (service *Service) log(ctx context.Context, o *Options, x exchange, err error) {
	level := slog.LevelInfo
	switch {
	case err == nil, x.left:
	case errcode.Is(err, errcode.Internal):
		level = slog.LevelError
	case errcode.Is(err, errcode.Unavailable):
		level = slog.LevelWarn
	}
	log := o.Log
	quiet := o.Quiet && level == slog.LevelInfo && (x.reason == "" || !o.ClientAddress)
	if quiet || !log.Enabled(ctx, level) {
		if log = o.Refused; log == nil || x.status != http.StatusUnauthorized && x.status != http.StatusForbidden {
			return
		}
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs,
		slog.String("service", service.Name), slog.String("method", x.method), slog.String("route", x.route),
		slog.Int("status", x.status), slog.Duration("took", x.took), slog.Int64("bytes", x.bytes), slog.String("request_id", x.id))
	if x.client != "" {
		attrs = append(attrs, slog.String("client_address", x.client))
	}
	if x.reason != "" {
		attrs = append(attrs, slog.String("reason", x.reason))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", errcode.Of(err).String()), slog.String("error", err.Error()))
		if p, ok := errors.AsType[*panicked](err); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	// LogAttrs would look up the unused source line.
	record := slog.NewRecord(x.start.Add(x.took), level, "request", 0)
	record.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, record)
}
