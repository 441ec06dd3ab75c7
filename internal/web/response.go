package web

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"holdfast/internal/fairshare"
	"holdfast/internal/work"
)

type response struct {
	http.ResponseWriter
	status int
	pace   pace
	piece  int // bytes of the next write; 0 means startBytes
	conn   *http.ResponseController
	body   *pacedBody

	request  *http.Request
	resolver *Resolver
	gate     *Gate
	turns    *fairshare.Turns
	turn     fairshare.Turn
	kind     fairshare.Kind
	meter    work.Meter
	inTurn   atomic.Bool
	slot     string // client charged for slot and turn; "" if there is no slot
	client   string
	memory   *Memory
	charged  int64
	header   int64 // charged for the header, in addition to charged
	streams  bool
	static   bool
	full     error // no memory for a piece of the response
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

func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK { // other statuses are provisional
		r.status = status
		ReleaseSlot(r) // processing is done; sending may take long
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

func (r *response) chargedTo() string {
	if r.client == "" && r.resolver != nil {
		r.client = "address " + r.resolver.Network(r.request)
	}
	return r.client
}

func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
