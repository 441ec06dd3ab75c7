package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
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
	pace    pace
	conn    *http.ResponseController
	streams bool // of HTTP/2, which ends a body that nobody wants by itself
	expects bool // the peer waits for 100 Continue before it sends the body
	begun   bool // the handler has read from it
	ended   bool // read to its end
	late    bool // the peer kept us waiting too long
}

// paceBody limits the pace of r's body. nil when there is nothing to limit.
func paceBody(w http.ResponseWriter, r *http.Request, rate Rate) *pacedBody {
	if rate.Grace == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &pacedBody{
		ReadCloser: r.Body, pace: newPace(rate), conn: http.NewResponseController(w),
		streams: r.ProtoMajor > 1, expects: strings.EqualFold(r.Header.Get("Expect"), "100-continue"),
	}
	r.Body = b
	return b
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF // without a deadline: see end
	}
	b.begun = true
	start := time.Now()
	b.limit(start)
	n, err := b.ReadCloser.Read(p)
	b.pace.count(n, time.Since(start))
	switch {
	case err == io.EOF:
		b.end()
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.late = true
	}
	return n, err
}

// A body that the handler has not read to its end is dealt with here, because
// net/http would read up to 256 KiB of it before it sends the answer, and so wait
// for a client that sends its body late or waits for the answer first.
const (
	restBytes   = 256 << 10              // what is read of a body so that its connection can be used again,
	restTime    = 20 * time.Millisecond  // if it comes within this time
	lingerBytes = 4 << 20                // what is read besides, after the answer,
	lingerTime  = 400 * time.Millisecond // in this time; net/http takes up to 500 ms more to close
)

// finish is called before the header of the answer is sent. It reads the rest of
// the body if that is there already, and else makes the answer the last one on the
// connection.
func (b *pacedBody) finish(answer http.Header) {
	if b.ended || b.streams {
		return
	}
	if !b.late && !b.withheld() {
		_ = b.conn.SetReadDeadline(time.Now().Add(restTime))
		if _, err := io.CopyN(io.Discard, b.ReadCloser, restBytes); errors.Is(err, io.EOF) {
			b.end()
			return
		}
	}
	answer.Set("Connection", "close")
}

// withheld reports whether the peer sends nothing before it is asked to.
func (b *pacedBody) withheld() bool { return b.expects && !b.begun }

// end notes that the body has been read. From then on the server watches the
// connection, and a deadline would end that watch, and with it the request's context.
func (b *pacedBody) end() {
	b.ended = true
	_ = b.conn.SetReadDeadline(time.Time{})
}

// linger sends the answer and reads what still comes of the body, for a while: to
// close a connection with bytes unread resets it, and a peer that is still sending,
// such as a proxy, takes that for a failure of the server. A peer that expects 100
// Continue may send without it: Caddy does. It gets none once the answer has begun.
func (b *pacedBody) linger() {
	if b.ended || b.streams {
		return
	}
	_ = b.conn.Flush()
	if !b.late {
		end := time.Now().Add(lingerTime)
		_ = b.conn.SetReadDeadline(end)
		if _, err := io.CopyN(io.Discard, b.ReadCloser, lingerBytes); err == nil {
			time.Sleep(time.Until(end)) // the peer cannot send more, and has time to read the answer
		}
	}
	_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // net/http waits for nothing more
}

// limit sets the deadline of the next wait. Where a connection has none, as in
// tests of a handler alone, nothing is limited.
func (b *pacedBody) limit(now time.Time) {
	_ = b.conn.SetReadDeadline(b.pace.deadline(now, 0))
}
