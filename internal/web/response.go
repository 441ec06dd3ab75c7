package web

import (
	"net/http"
	"time"

	"holdfast/internal/fair"
)

// response notes what a handler answers and limits how slowly the client may
// take it.
type response struct {
	http.ResponseWriter
	status int // 0 until the header is written
	pace   pace
	conn   *http.ResponseController // nil: no limit
	body   *pacedBody               // of the request; nil: none

	request  *http.Request
	resolver *Resolver  // nil: the address of the client is not known
	gate     *Gate      // nil: no limit
	turns    *fair.Pool // nil: no limit
	slot     string     // the client whose slot of the gate, and turn, the request has; "" without
	client   string     // that sent the request; "" while only its address is known
	memory   *Memory    // nil: no limit
	charged  int64      // bytes of memory that the request has, charged to client
}

// newResponse also lifts the server's own deadline for the answer, which counts
// from the request's header on: over HTTP/2 it would end the exchange while a
// long body still comes in.
func newResponse(w http.ResponseWriter, body *pacedBody, rate Rate) *response {
	r := &response{ResponseWriter: w, pace: newPace(rate), body: body}
	if rate.Grace > 0 {
		r.conn = http.NewResponseController(w)
		_ = r.conn.SetWriteDeadline(time.Time{}) // as with pacedBody.limit
	}
	return r
}

// wait sets the deadline for writing n bytes. It also stands when the server
// flushes what the handler has left in its buffer: a header stays there until bytes
// of the body follow, or the exchange ends.
func (r *response) wait(now time.Time, n int) {
	if r.conn == nil {
		return
	}
	_ = r.conn.SetWriteDeadline(r.pace.deadline(now, n))
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // others are provisional
		r.status = status
		ReleaseSlot(r) // the work is done, and the client may take its time
		if r.body != nil {
			r.body.finish(r.Header())
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// FlushError is for http.ResponseController.
func (r *response) FlushError() error {
	r.wait(time.Now(), 0)
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// pieceBytes is what a client is given time for at once. More would let one
// that takes nothing at all wait for as long as one that takes it slowly.
const pieceBytes = 16 << 10

func (r *response) Write(p []byte) (written int, err error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	for {
		piece := p[written:min(len(p), written+pieceBytes)]
		start := time.Now()
		r.wait(start, len(piece))
		n, err := r.ResponseWriter.Write(piece)
		r.pace.count(n, time.Since(start))
		r.pace.left = max(r.pace.left, 0) // conn.Write may have given it more
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// chargedTo names the client that the request is charged to.
func (r *response) chargedTo() string {
	if r.client == "" && r.resolver != nil {
		r.client = "address " + r.resolver.Network(r.request)
	}
	return r.client
}

// Unwrap lets http.ResponseController find what is underneath.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
