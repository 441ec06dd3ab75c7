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

	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Handler answers a request, or returns the error with which its room's
// ErrorWriter answers. An error after the answer has begun cuts the connection,
// so that the client does not take a part for the whole. The text of an error
// is logged, so it must not quote what a client sent.
type Handler func(http.ResponseWriter, *http.Request) error

// ErrorWriter answers with an error in the form of a room's protocol.
type ErrorWriter func(http.ResponseWriter, *http.Request, error)

// Room is one room as the listener sees it.
type Room struct {
	Name  string // in logs and metrics
	Serve Handler
	Error ErrorWriter

	// Route names the route of a request for logs and metrics, out of a small
	// fixed set: nothing that a client chose.
	Route func(*http.Request) string

	// Gate, when not nil, bounds the requests that are worked on at once.
	// Rooms may share one.
	Gate *Gate
}

// Options are what all rooms of a server have in common.
type Options struct {
	Log *slog.Logger

	// Observe, when not nil, is told of every request. method and status are
	// out of a small set; 499 stands for a client that did not wait.
	Observe func(room, route, method string, status int, d time.Duration)

	// Pace at which a client must send its body and take the answer.
	Pace Rate
}

// statusGone is what logs and metrics say of a request that failed because its
// client went away: it is nobody's failure, and 5xx would be ours.
const statusGone = 499

// Handler is the room with all that stands around it. It sets X-Request-Id:
// the client's, when it may be taken over, else a new one; an ErrorWriter finds
// it in the answer's header.
func (room Room) Handler(o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := r.Header.Get("X-Request-Id")
		if !ident.ValidRequestID(id) {
			id = ident.New()
		}
		w.Header().Set("X-Request-Id", id)
		body := paceBody(w, r, o.Pace)
		rec := newResponse(w, body, o.Pace)

		err := room.serve(rec, r)
		begun := rec.status != 0
		left := err != nil && gone(r, body, err)
		switch {
		case begun:
		case err == nil:
			rec.WriteHeader(http.StatusOK)
		default:
			if errors.Is(err, errShed) {
				w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds()))
			}
			room.Error(rec, r, err) // also who seems to have left may only have closed its side
		}
		x := exchange{id: id, route: room.Route(r), method: method(r.Method), status: rec.status, bytes: rec.pace.bytes, took: time.Since(start), left: left}
		if left && !begun {
			x.status = statusGone
		}
		if o.Observe != nil {
			o.Observe(room.Name, x.route, x.method, x.status, x.took)
		}
		room.log(r.Context(), o.Log, x, err)
		if begun && err != nil {
			panic(http.ErrAbortHandler) // the server's way to cut a connection
		}
		if r.Close && body != nil {
			body.linger(w.Header())
		}
	})
}

// serve calls the room's handler inside its gate. A panic is an error.
func (room Room) serve(w *response, r *http.Request) (err error) {
	w.gate = room.Gate
	if err := StepIn(w, r); err != nil {
		return err
	}
	defer StepOut(w)
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, "internal error", &panicked{p, debug.Stack()})
		}
	}()
	return room.Serve(w, r)
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
	took              time.Duration
	left              bool // the client did not wait for the end
}

// log writes the one line that a request has. It holds no path, no query, no
// header and nothing of a body: those are secrets or a user's own.
func (room Room) log(ctx context.Context, log *slog.Logger, x exchange, err error) {
	level := slog.LevelInfo
	switch {
	case err == nil, x.left:
	case fault.Is(err, fault.Internal):
		level = slog.LevelError
	case fault.Is(err, fault.Unavailable):
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("room", room.Name), slog.String("method", x.method), slog.String("route", x.route),
		slog.Int("status", x.status), slog.Duration("took", x.took), slog.Int64("bytes", x.bytes), slog.String("request_id", x.id))
	if err != nil {
		attrs = append(attrs, slog.String("fault", fault.CodeOf(err).String()), slog.String("error", err.Error()))
		if p, ok := errors.AsType[*panicked](err); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}
