package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"holdfast/internal/fair"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Handler answers a request that arrived at an address, or returns the error
// that its service's ErrorWriter answers with. An error after the answer has
// begun cuts the connection, so that the client does not take a part for the
// whole. The text of an error is logged, so it must not quote what a client sent.
type Handler func(http.ResponseWriter, *http.Request, Address) error

// ErrorWriter answers with an error in the form of a service's protocol.
type ErrorWriter func(http.ResponseWriter, *http.Request, error)

// Service is one service as a listener sees it.
type Service struct {
	Name  string // in logs and metrics
	Serve Handler
	Error ErrorWriter

	// Route names the route of a raw path for logs and metrics, out of a small
	// fixed set: nothing that a client chose.
	Route func(path string) string

	// Reason, when not nil, names why a request was refused, out of a small fixed set,
	// for metrics and logs; "" for other errors. It is called once for each error.
	Reason func(error) string

	// Turns, when not nil, bounds the requests with a slot that use the service's
	// database at once, so that they wait for it here, where clients share it, and not
	// where the first come is the first served.
	Turns *fair.Pool
}

// Mount is a service and the paths that it owns on a listener.
type Mount struct {
	Service
	Owns func(path string) bool // by the raw path without the public prefix
}

// Mux gives each request of a listener to the service that owns its path. It
// resolves the address of a request once and passes it on.
type Mux struct {
	Resolver *Resolver
	Options  Options
	Mounts   []Mount // the first that owns a path serves it
	Default  Service // serves paths that nobody owns
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := m.Resolver.Resolve(r)
	m.serve(m.owner(at.Path), w, r, at)
}

// owner is the service that owns a path.
func (m *Mux) owner(path string) *Service {
	for i := range m.Mounts {
		if m.Mounts[i].Owns(path) {
			return &m.Mounts[i].Service
		}
	}
	return &m.Default
}

// serve gives a request to a service.
func (m *Mux) serve(service *Service, w http.ResponseWriter, r *http.Request, at Address) {
	route := service.Route(at.Path)
	if m.Options.Trace == nil {
		m.handle(service, w, r, at, route)
		return
	}
	m.Options.Trace(w, r, route, func(w http.ResponseWriter, r *http.Request) {
		m.handle(service, w, r, at, route)
	})
}

// Handler serves every path by the service, at addresses as the requests name
// them.
func (service Service) Handler(o Options) http.Handler {
	return &Mux{Resolver: &Resolver{}, Options: o, Default: service}
}

// Options are what all services of a listener have in common.
type Options struct {
	Log *slog.Logger

	// Quiet leaves out the lines of requests that the server did not fail.
	Quiet bool

	// ClientAddress adds the address of the client to the lines, and has a line for
	// each request with a Reason, also with Quiet.
	ClientAddress bool

	// Gate, when not nil, bounds the requests that are worked on at once.
	// Listeners may share one. A service takes part by AcquireSlot.
	Gate *Gate

	// Memory, when not nil, bounds the bytes that requests keep in memory.
	// Listeners may share one. A service takes part by ChargeMemory.
	Memory *Memory

	// Trace, when not nil, is called around every request.
	Trace func(w http.ResponseWriter, r *http.Request, route string, next http.HandlerFunc)

	// Observe, when not nil, is told of every request. method and status are
	// out of a small set; 499 stands for a client that did not wait.
	Observe func(service, route, method string, status int, d time.Duration)

	// Pace at which a client must send its body and take the answer.
	Pace Rate
}

// statusGone is what logs and metrics say of a request that failed because its
// client went away: it is nobody's failure, and 5xx would be ours.
const statusGone = 499

// handle serves a request with all that stands around a service's own handler.
// It sets X-Request-Id: the client's, when it is valid, else a new one; an
// ErrorWriter finds it in the header of the answer.
func (m *Mux) handle(service *Service, w http.ResponseWriter, r *http.Request, at Address, route string) {
	o := &m.Options
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
	rec.turns = service.Turns
	rec.request, rec.resolver, rec.memory = r, m.Resolver, o.Memory
	defer rec.releaseMemory() // also when an error writer panics

	err := service.serve(rec, r, at)
	begun := rec.status != 0
	left := err != nil && gone(r, body, err)
	reason := ""
	switch {
	case begun:
	case err == nil:
		w.Header().Set("Content-Length", "0")
		rec.WriteHeader(http.StatusOK)
	default:
		if errors.Is(err, fair.ErrFull) {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds()))
		}
		if service.Reason != nil {
			reason = service.Reason(err)
		}
		service.Error(rec, r, err) // also for a client that seems to have left: it may only have closed its side
	}
	x := exchange{id: id, route: route, method: method(r.Method), status: rec.status, bytes: rec.pace.bytes, start: start, took: time.Since(start), left: left, reason: reason}
	if left && !begun {
		x.status = statusGone
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
	rec.releaseMemory()
	if begun && err != nil {
		panic(http.ErrAbortHandler) // the server's way to cut a connection
	}
	rec.wait(time.Now(), 0) // for what is still to be sent
	if body != nil {
		body.linger()
	}
}

// serve calls the service's handler. A panic is an error.
func (service *Service) serve(w *response, r *http.Request, at Address) (err error) {
	defer ReleaseSlot(w)
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, "internal error", &panicked{p, debug.Stack()})
		}
	}()
	return service.Serve(w, r, at)
}

// panicked is a handler's panic as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// gone reports whether a request failed because its client has left. A body
// that comes too slowly ends the context as well, and the client is still there.
func gone(r *http.Request, body *pacedBody, err error) bool {
	_, bug := errors.AsType[*panicked](err)
	return errors.Is(r.Context().Err(), context.Canceled) && (body == nil || !body.late) && !bug
}

// method is a request's method if it is a known one: clients make up others,
// and each would be a metric of its own.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// exchange is a request and its answer, as they are logged.
type exchange struct {
	id, route, method string
	status            int
	bytes             int64 // of the answer's body
	start             time.Time
	took              time.Duration
	left              bool   // the client did not wait for the end
	client            string // its address; "" when it is not logged or not known
	reason            string // why the request was refused; "" otherwise
}

// log writes the one line that a request has. It holds no path, no query, no
// header and nothing of a body: those are secrets or a user's own.
func (service *Service) log(ctx context.Context, o *Options, x exchange, err error) {
	level := slog.LevelInfo
	switch {
	case err == nil, x.left:
	case fault.Is(err, fault.Internal):
		level = slog.LevelError
	case fault.Is(err, fault.Unavailable):
		level = slog.LevelWarn
	}
	quiet := o.Quiet && level == slog.LevelInfo && (x.reason == "" || !o.ClientAddress)
	if quiet || !o.Log.Enabled(ctx, level) {
		return
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
		attrs = append(attrs, slog.String("fault", fault.CodeOf(err).String()), slog.String("error", err.Error()))
		if p, ok := errors.AsType[*panicked](err); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	// LogAttrs would find out which line of code logs, which nobody asks for.
	record := slog.NewRecord(x.start.Add(x.took), level, "request", 0)
	record.AddAttrs(attrs...)
	_ = o.Log.Handler().Handle(ctx, record)
}
