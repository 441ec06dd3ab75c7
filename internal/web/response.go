package web

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"holdfast/internal/fairshare"
	"holdfast/internal/work"
)

// response records the response of a handler and limits how slowly the client may read
// it.
type response struct {
	http.ResponseWriter
	status int // 0 until the header is written
	pace   pace
	piece  int                      // bytes of the next write; 0: startBytes
	conn   *http.ResponseController // nil: no limit
	body   *pacedBody               // of the request; nil: none

	request  *http.Request
	resolver *Resolver        // nil: the address of the client is not known
	gate     *Gate            // nil: no limit
	turns    *fairshare.Turns // nil: no limit
	turn     fairshare.Turn
	kind     fairshare.Kind
	meter    work.Meter // of the work during the turn
	inTurn   atomic.Bool
	slot     string  // client to which the slot and the turn of the request are charged; "" without a slot
	client   string  // set by Identify; "" before
	memory   *Memory // nil: no limit
	charged  int64   // bytes of memory that are charged for the request
	streams  bool    // StreamBody
	static   bool    // StaticBody
	full     error   // there was no memory for a piece of the response
}

// newResponse also removes the write deadline of the server, which starts at the header of
// the request: over HTTP/2 it would end the exchange while a long body still arrives.
func newResponse(w http.ResponseWriter, body *pacedBody, rate Rate) *response {
	r := &response{ResponseWriter: w, pace: newPace(rate), body: body}
	if rate.Grace > 0 {
		r.conn = http.NewResponseController(w)
		_ = r.conn.SetWriteDeadline(time.Time{}) // may fail: see pacedBody.limit
	}
	return r
}

// wait sets the deadline for writing n bytes. It also applies when the server flushes its
// buffer: a header stays there until bytes of the body follow or the exchange ends.
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
		ReleaseSlot(r) // processing is done; sending may take long
		if r.body != nil {
			r.body.finish(r.Header())
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// FlushError implements what http.ResponseController expects.
func (r *response) FlushError() error {
	r.wait(time.Now(), 0)
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Sizes of the writes that have a deadline each. The deadline is always the one for the least size:
// with a later deadline a client that reads nothing would get as much time as a slow reader.
// A client that reads fast gets larger pieces, because each costs a system call and often wakes
// the client. The first piece fits into the buffers of a new connection.
const (
	pieceBytes = 16 << 10
	startBytes = 64 << 10
	mostBytes  = 128 << 10
	fast       = 100 // times the minimum rate
)

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
			// A goroutine that produces and writes a long response without a wait would work until
			// the scheduler ends its time slice of 10 ms, and many of them delay all others.
			runtime.Gosched()
		}
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// chargedTo returns the client to which the request is charged.
func (r *response) chargedTo() string {
	if r.client == "" && r.resolver != nil {
		r.client = "address " + r.resolver.Network(r.request)
	}
	return r.client
}

// Unwrap implements what http.ResponseController expects.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
