package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Rate is the minimum rate for sending or reading a body. Without it, a few slow peers could hold connections forever.
type Rate struct {
	// Grace is the time that a peer may stall in total. 0 means no limit.
	Grace time.Duration
	// BytesPerSecond is how many bytes earn back one second of Grace.
	BytesPerSecond int64
}

// pace counts the time that a peer stalls, without the handler's own time.
type pace struct {
	rate  Rate
	left  time.Duration // stall time that is left
	bytes int64         // transferred so far
}

// newPace returns a pace with the whole grace left.
func newPace(rate Rate) pace { return pace{rate: rate, left: rate.Grace} }

// deadline returns when transferring n bytes must be done.
func (p *pace) deadline(now time.Time, n int) time.Time { return now.Add(p.left + p.earned(n)) }

// count records that n bytes took the time waited. The grace never exceeds its initial value.
func (p *pace) count(n int, waited time.Duration) {
	p.bytes += int64(n)
	p.left = min(p.left+p.earned(n)-waited, p.rate.Grace)
}

// earned returns the time that n bytes earn back.
func (p *pace) earned(n int) time.Duration {
	return time.Duration(float64(n) / float64(max(p.rate.BytesPerSecond, 1)) * float64(time.Second))
}

// pacedBody fails with os.ErrDeadlineExceeded if the request body arrives too slowly.
type pacedBody struct {
	io.ReadCloser
	pace    pace
	conn    *http.ResponseController
	streams bool // HTTP/2: a stream ends without its connection
	expects bool // the peer waits for 100 Continue
	begun   bool // the handler has read
	ended   bool // EOF was read
	late    bool // a read missed its deadline
}

// paceBody replaces r.Body by a pacedBody. It returns nil if there is no body or no minimum rate.
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

// Read counts the time spent waiting for the peer.
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

// These limit how much of an unread body is discarded. net/http would read up to 256 KiB before the response, waiting
// for a client that sends late or waits itself.
const (
	restBytes   = 256 << 10 // before the response, to reuse the connection
	restTime    = 20 * time.Millisecond
	lingerBytes = 4 << 20 // after the response
	lingerChunk = 32 << 10
	lingerPause = time.Second      // per chunk
	lingerTime  = 10 * time.Second // a proxy on a busy machine needs seconds to send lingerBytes
)

// finish reads a short rest of the body before the response header is written. If more is missing, the response becomes
// the connection's last.
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

// withheld reports whether the peer waits for 100 Continue, so that no body is on its way.
func (b *pacedBody) withheld() bool { return b.expects && !b.begun }

// end removes the deadline: after EOF net/http watches the connection in the background, where a deadline would cancel
// the request's context.
func (b *pacedBody) end() {
	b.ended = true
	_ = b.conn.SetReadDeadline(time.Time{})
}

// linger reads the rest of the body. Closing a connection with unread bytes resets it, which a sending proxy reports as
// a server failure. A peer that expects 100 Continue may send without it, as Caddy does; once the response has begun,
// it gets none.
func (b *pacedBody) linger() {
	if b.ended || b.streams {
		return
	}
	_ = b.conn.Flush()
	if !b.late {
		if err := discard(b.ReadCloser, b.conn); err == nil {
			time.Sleep(lingerPause) // lets the peer read the response
		}
	}
	_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // net/http must not read more
}

// discard reads up to lingerBytes, and returns an error if the peer ends or sends too slowly.
func discard(r io.Reader, conn interface{ SetReadDeadline(t time.Time) error }) error {
	end := time.Now().Add(lingerTime)
	for range lingerBytes / lingerChunk {
		deadline := time.Now().Add(lingerPause)
		if deadline.After(end) {
			deadline = end
		}
		_ = conn.SetReadDeadline(deadline)
		if _, err := io.CopyN(io.Discard, r, lingerChunk); err != nil {
			return err
		}
	}
	return nil
}

// limit sets the read deadline. Connections without deadlines, as in handler tests, ignore it.
func (b *pacedBody) limit(now time.Time) {
	_ = b.conn.SetReadDeadline(b.pace.deadline(now, 0))
}
