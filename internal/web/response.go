package web

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"holdfast/internal/fairshare"
	"holdfast/internal/work"
)

// response is the ResponseWriter that handlers get from a Mux. It carries the request's state: the client, slot, turn
// and charged memory, which gate.go and memory.go change; and it enforces the pace.
type response struct {
	http.ResponseWriter
	status int // 0 until the header is written
	pace   pace
	piece  int                      // bytes of the next write; 0 means startBytes
	conn   *http.ResponseController // nil without a minimum rate
	body   *pacedBody

	request  *http.Request // for the client's address
	resolver *Resolver
	gate     *Gate            // nil: no limit
	turns    *fairshare.Turns // nil: no turns
	turn     fairshare.Turn   // valid while inTurn
	kind     fairshare.Kind   // for turns
	meter    work.Meter       // measures the database work
	inTurn   atomic.Bool      // ended once, by the request or by the meter's goroutine
	slot     string           // client charged for slot and turn; "" if there is no slot
	client   string           // set by Identify; "": not asked for yet, see chargedTo
	memory   *Memory          // nil: no budget
	charged  int64            // bytes, besides header
	header   int64            // charged for the header, in addition to charged
	streams  bool             // see StreamBody
	static   bool             // see StaticBody
	full     error            // no memory for a piece of the response
}

// responseKey is the key of a request's *response in its context.
type responseKey struct{}

// of returns the request for the handler. Its context leads to the response and so to slot, memory and client, whichever
// ResponseWriter a handler, tracing or a middleware puts around this one.
func (r *response) of(req *http.Request) *http.Request {
	ctx := context.WithValue(req.Context(), responseKey{}, r)
	if r.turns != nil {
		ctx = work.With(ctx, &r.meter)
	}
	r.request = req.WithContext(ctx)
	return r.request
}

// responseOf returns nil if the request does not come from a Mux or from Charge.
func responseOf(req *http.Request) *response {
	r, _ := req.Context().Value(responseKey{}).(*response)
	return r
}

// newResponse removes the server's write deadline, which starts at the request header: over HTTP/2 it would end the
// exchange during a long upload.
func newResponse(w http.ResponseWriter, body *pacedBody, rate Rate) *response {
	r := &response{ResponseWriter: w, pace: newPace(rate), body: body}
	if rate.Grace > 0 {
		r.conn = http.NewResponseController(w)
		_ = r.conn.SetWriteDeadline(time.Time{}) // may fail: see pacedBody.limit
	}
	return r
}

// wait sets a deadline for writing n bytes. It also covers flushes of net/http's buffer, which holds the header until the
// body follows or the exchange ends.
func (r *response) wait(now time.Time, n int) {
	if r.conn == nil {
		return
	}
	_ = r.conn.SetWriteDeadline(r.pace.deadline(now, n))
}

// WriteHeader releases the slot, and makes sure that the unread body does not block the response.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // other statuses are provisional
		r.status = status
		r.releaseSlot() // processing is done; sending may take long
		if r.body != nil {
			r.body.finish(r.Header())
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// FlushError is the method that http.ResponseController looks for.
func (r *response) FlushError() error {
	r.wait(time.Now(), 0)
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// These are the sizes of writes. The deadline is always for the smallest size: otherwise a client that reads nothing
// would get as much time as a slow reader.
const (
	pieceBytes = 16 << 10
	startBytes = 64 << 10
	mostBytes  = 128 << 10
	fast       = 100 // multiple of the minimum rate
)

// Write sends p in pieces, each with its own deadline, so that a slow but steady reader is not cut off.
func (r *response) Write(p []byte) (written int, err error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	release, err := r.hold(p)
	if err != nil {
		return 0, err
	}
	defer release()
	if r.piece == 0 {
		r.piece = startBytes
	}
	for {
		piece := p[written:min(len(p), written+r.piece)]
		start := time.Now()
		r.wait(start, min(len(piece), pieceBytes))
		n, err := r.ResponseWriter.Write(piece)
		waited := time.Since(start)
		if r.piece = pieceBytes; r.pace.earned(n) > fast*waited {
			r.piece = min(max(len(piece), pieceBytes)*2, mostBytes)
		}
		r.pace.count(n, waited)
		r.pace.left = max(r.pace.left, 0) // conn.Write may have allowed more
		written += n
		if len(piece) >= pieceBytes {
			// A goroutine that writes a long response without waiting would run for the scheduler's 10 ms time slice,
			// and many of them delay all others.
			runtime.Gosched()
		}
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// chargedTo returns the client, or the address's network if the request is not identified yet.
func (r *response) chargedTo() string {
	if r.client == "" && r.resolver != nil {
		r.client = "address " + r.resolver.Network(r.request)
	}
	return r.client
}

// Unwrap lets http.ResponseController find the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
