package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Rate is the least pace at which a peer must send or take a body. Without it
// a few peers that trickle bytes would hold connections, and what a request
// holds besides, as long as they like.
type Rate struct {
	// Grace is how long a peer may keep us waiting, at once or in sum. 0 lifts
	// the limit.
	Grace time.Duration
	// BytesPerSecond is the pace at which waits are forgiven: so many bytes
	// make good for one second.
	BytesPerSecond int64
}

// pace is how long one side of a connection may still keep us waiting. Only
// the waits count, not what a handler does between them.
type pace struct {
	rate  Rate
	left  time.Duration // never more than the grace
	bytes int64         // sent or taken so far
}

func newPace(rate Rate) pace { return pace{rate: rate, left: rate.Grace} }

// deadline is when a wait for n bytes that begins now must end.
func (p *pace) deadline(now time.Time, n int) time.Time { return now.Add(p.left + p.worth(n)) }

// count counts n bytes that were waited for.
func (p *pace) count(n int, waited time.Duration) {
	p.bytes += int64(n)
	p.left = min(p.left+p.worth(n)-waited, p.rate.Grace)
}

func (p *pace) worth(n int) time.Duration {
	return time.Duration(float64(n) / float64(max(p.rate.BytesPerSecond, 1)) * float64(time.Second))
}

// pacedBody is a request body whose reads fail with os.ErrDeadlineExceeded
// when it comes too slowly.
type pacedBody struct {
	io.ReadCloser
	pace  pace
	conn  *http.ResponseController
	ended bool // read to its end
	late  bool // the peer kept us waiting too long
}

// paceBody limits the pace of r's body from now on: the server itself reads
// from it when the handler did not. nil when there is nothing to limit.
func paceBody(w http.ResponseWriter, r *http.Request, rate Rate) *pacedBody {
	if rate.Grace == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &pacedBody{ReadCloser: r.Body, pace: newPace(rate), conn: http.NewResponseController(w)}
	b.limit(time.Now())
	r.Body = b
	return b
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.ended {
		// From the end on the server watches the connection, and a deadline
		// would end that watch, and with it the request's context.
		return 0, io.EOF
	}
	start := time.Now()
	b.limit(start)
	n, err := b.ReadCloser.Read(p)
	b.pace.count(n, time.Since(start))
	switch {
	case err == io.EOF:
		b.ended = true
		_ = b.conn.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.late = true
	}
	return n, err
}

// What is taken of a body that nobody wants: more than the largest that services
// do want, for a peer that sends it whole before it reads the answer.
const (
	lingerBytes = 4 << 20
	lingerTime  = 5 * time.Second
)

// linger takes what still comes of the body, a while. Where the peer has asked
// for the connection to be closed, net/http would do so at once, and a close
// with bytes unread is a reset: a proxy that is still sending takes it for a
// failure of the server, whatever the answer was. An answer that says how long
// it is goes out before, so that the peer need not send the rest.
func (b *pacedBody) linger(answer http.Header) {
	if b.ended || b.late {
		return
	}
	if answer.Get("Content-Length") != "" {
		_ = b.conn.Flush()
	}
	_ = b.conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, b.ReadCloser, lingerBytes)
}

// limit sets the deadline of the next wait. Where a connection has none, as in
// tests of a handler alone, nothing is limited.
func (b *pacedBody) limit(now time.Time) {
	_ = b.conn.SetReadDeadline(b.pace.deadline(now, 0))
}
