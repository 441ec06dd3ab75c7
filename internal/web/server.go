package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits bound what a connection may send and hold before and between
// requests.
type Limits struct {
	Header      time.Duration // in which a request's header must have come, from its first byte on
	Idle        time.Duration // how long a connection may wait for its first or next request
	HeaderBytes int           // of a request line and its header, about
	Pace        Rate          // of bodies, both ways
}

// DefaultLimits suit clients on bad mobile networks.
func DefaultLimits() Limits {
	return Limits{
		Header:      10 * time.Second,
		Idle:        2 * time.Minute,
		HeaderBytes: 32 << 10,
		Pace:        Rate{Grace: 20 * time.Second, BytesPerSecond: 1 << 10},
	}
}

// Server is an HTTP server with limits.
type Server struct {
	*http.Server
	limits  Limits
	refuser Refuser // nil: net/http answers malformed requests
}

// NewServer returns a server with these limits. Over the header's limits
// net/http answers by itself, 431 or by closing the connection. A handler that is a
// Refuser answers malformed requests. A handler that
// is not a Mux must answer within the grace of the pace, its body
// included, because nothing moves its deadlines on.
func NewServer(h http.Handler, l Limits, log *slog.Logger) *Server {
	refuser, _ := h.(Refuser)
	return &Server{limits: l, refuser: refuser, Server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.Header,
		IdleTimeout:       l.Idle,
		// net/http allows 4 KiB over what it is told.
		MaxHeaderBytes: max(l.HeaderBytes-4<<10, 1),
		// For answers that no handler of ours writes; it also makes net/http
		// set a fresh deadline for each request on a connection.
		WriteTimeout: l.Pace.Grace,
		ConnState:    startRequest,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
}

// shuttingDownKey is that of a server's ending in the contexts of its requests.
type shuttingDownKey struct{}

// ShuttingDown ends when the server of a request takes no more of them and waits for
// those that there are: for a handler that waits for something itself, and is to
// answer now. ctx is the request's.
func ShuttingDown(ctx context.Context) context.Context {
	if ending, ok := ctx.Value(shuttingDownKey{}).(context.Context); ok {
		return ending
	}
	return context.Background()
}

// Drain says how a server ends.
type Drain struct {
	// NotReady makes the server's readiness refuse. It may be nil.
	NotReady func()
	// Delay is how long requests are still welcome after that: until load
	// balancers have noticed.
	Delay time.Duration
	// Grace is how long requests may go on after the listener is closed. Those
	// that then still run are cut off.
	Grace time.Duration
}

// Serve serves the listener until ctx ends and then drains. It returns when no
// request is left: nil after a drain in good order, else why the listener
// failed or that requests had to be cut off.
func Serve(ctx context.Context, srv *Server, l net.Listener, d Drain) error {
	l = &listener{Listener: l, limits: srv.limits}
	if srv.TLSConfig == nil {
		l.(*listener).refuser = srv.refuser
	}
	var draining atomic.Bool
	ending, end := context.WithCancel(context.Background())
	defer end()
	srv.RegisterOnShutdown(end)
	srv.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.Background(), shuttingDownKey{}, ending)
	}
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() {
			// Its next request finds another server. To close connections that
			// happen to be idle, as SetKeepAlivesEnabled does, would lose the
			// request that is on its way.
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	broken := func(err error) error {
		return fmt.Errorf("listener %s: %w", l.Addr(), errors.Join(err, srv.Close()))
	}
	failed := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			failed <- srv.ServeTLS(l, "", "")
		} else {
			failed <- srv.Serve(l)
		}
	}()
	select {
	case err := <-failed:
		return broken(err)
	case <-ctx.Done():
	}
	if d.NotReady != nil {
		d.NotReady()
	}
	draining.Store(true)
	delay := time.NewTimer(d.Delay)
	defer delay.Stop()
	select {
	case err := <-failed:
		return broken(err)
	case <-delay.C:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Grace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		return broken(fmt.Errorf("requests were cut off: %w", err))
	}
	return nil
}
