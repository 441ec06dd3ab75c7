package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// Limits protect a listener against slow and excessive clients.
type Limits struct {
	Header      time.Duration // time to receive a header, from its first byte
	Idle        time.Duration // wait for the first or next request
	HeaderBytes int           // request line and header, approximately
	Pace        Rate          // for bodies and responses
}

// DefaultLimits returns limits that suit clients on slow mobile networks.
func DefaultLimits() Limits {
	return Limits{
		Header:      10 * time.Second,
		Idle:        2 * time.Minute,
		HeaderBytes: 32 << 10,
		Pace:        Rate{Grace: 20 * time.Second, BytesPerSecond: 1 << 10},
	}
}

// Server is an http.Server whose connections this package checks. Create it by NewServer, set TLSConfig for HTTPS,
// and run it by Serve.
type Server struct {
	*http.Server
	limits    Limits
	malformed MalformedHandler // nil: net/http answers malformed requests itself
}

// NewServer returns a server with limits. If h is a MalformedHandler, it answers malformed requests. Handlers other
// than Mux must read the body and respond within l.Pace.Grace.
func NewServer(h http.Handler, l Limits, log *slog.Logger) *Server {
	malformed, _ := h.(MalformedHandler)
	s := &Server{limits: l, malformed: malformed, Server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.Header,
		IdleTimeout:       l.Idle,
		// net/http adds 4 KiB.
		MaxHeaderBytes: max(l.HeaderBytes-4<<10, 1),
		// This is for net/http's own responses. It also makes net/http set a new deadline for each request.
		WriteTimeout: l.Pace.Grace,
		ConnContext:  withWire,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	configureHTTP2(s.Server, l)
	return s
}

// wrap prepares the server to serve l, with TLS if srv.TLSConfig is set.
func (srv *Server) wrap(l net.Listener) net.Listener {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	wrapped := &listener{Listener: l, server: srv}
	if srv.TLSConfig != nil {
		srv.Protocols.SetUnencryptedHTTP2(true) // see wire
		wrapped.tls = srv.TLSConfig.Clone()
		for _, proto := range []string{"h2", "http/1.1"} {
			if !slices.Contains(wrapped.tls.NextProtos, proto) {
				wrapped.tls.NextProtos = append(slices.Clip(wrapped.tls.NextProtos), proto)
			}
		}
	}
	return wrapped
}

type shuttingDownKey struct{}

// ShuttingDown returns a context that is done when the request's server stops accepting requests. A waiting handler
// should then answer immediately.
func ShuttingDown(ctx context.Context) context.Context {
	if ending, ok := ctx.Value(shuttingDownKey{}).(context.Context); ok {
		return ending
	}
	return context.Background()
}

// Drain says how a server ends without failing requests.
type Drain struct {
	NotReady func() // called first, to make the readiness check fail; nil: nothing
	// Delay is how long requests are still accepted, until load balancers have noticed.
	Delay time.Duration
	// Grace is the time between closing the listener and aborting requests.
	Grace time.Duration
	// Times, if set, returns Delay and Grace when draining begins, because settings may have changed since the start.
	Times func() (delay, grace time.Duration)
}

// Serve serves the listener until ctx is done, then drains it: NotReady, Delay, closing the listener, Grace. It
// returns nil if all requests ended in time, and an error if the listener failed or requests were aborted. It closes
// l.
func Serve(ctx context.Context, srv *Server, l net.Listener, d Drain) error {
	l = srv.wrap(l)
	var draining atomic.Bool
	ending, end := context.WithCancel(context.Background())
	defer end()
	var open connections
	srv.ConnState = open.note
	srv.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.Background(), shuttingDownKey{}, ending)
	}
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() {
			// The client's next request goes to another server. Closing idle connections, like SetKeepAlivesEnabled,
			// would lose a request in transit.
			w.Header().Set("Connection", "close")
		}
		setTLS(r)
		handler.ServeHTTP(w, r)
	})
	broken := func(err error) error {
		return fmt.Errorf("listener %s: %w", l.Addr(), errors.Join(err, srv.Close()))
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return broken(err)
	case <-ctx.Done():
	}
	if d.NotReady != nil {
		d.NotReady()
	}
	draining.Store(true)
	if d.Times != nil {
		d.Delay, d.Grace = d.Times()
	}
	delay := time.NewTimer(d.Delay)
	defer delay.Stop()
	select {
	case err := <-failed:
		return broken(err)
	case <-delay.C:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Grace)
	defer cancel()
	// Shutdown would miss a connection that is being accepted. If the service manager keeps the socket open, the next
	// server accepts later connections.
	if err := l.Close(); err != nil {
		return broken(err)
	}
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		return broken(err)
	}
	end()
	open.await(grace)
	if err := srv.Shutdown(grace); err != nil {
		return broken(fmt.Errorf("requests were cut off: %w", err))
	}
	return nil
}
