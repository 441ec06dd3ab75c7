package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Rate is the minimum rate at which a peer must send or read a body. Without it a few
// slow peers could hold connections, and the resources of their requests, for any time.
type Rate struct {
	// Grace is the total time that a peer may stall. 0 means no limit.
	Grace time.Duration
	// BytesPerSecond is the number of bytes that earns back one second of Grace.
	BytesPerSecond int64
}

// pace tracks how long one side of a connection may still stall. It counts only the
// waits for the peer, not the time of the handler.
type pace struct {
	rate  Rate
	left  time.Duration // at most the grace
	bytes int64         // transferred so far
}

func newPace(rate Rate) pace { return pace{rate: rate, left: rate.Grace} }

// deadline returns the deadline of a transfer of n bytes that starts now.
func (p *pace) deadline(now time.Time, n int) time.Time { return now.Add(p.left + p.earned(n)) }

// count records a transfer of n bytes and its duration.
func (p *pace) count(n int, waited time.Duration) {
	p.bytes += int64(n)
	p.left = min(p.left+p.earned(n)-waited, p.rate.Grace)
}

// earned returns the time that n bytes earn back.
func (p *pace) earned(n int) time.Duration {
	return time.Duration(float64(n) / float64(max(p.rate.BytesPerSecond, 1)) * float64(time.Second))
}

// pacedBody is a request body whose reads fail with os.ErrDeadlineExceeded if it arrives
// too slowly.
type pacedBody struct {
	io.ReadCloser
	pace    pace
	conn    *http.ResponseController
	streams bool // HTTP/2, which cancels an unread body itself
	expects bool // the peer waits for 100 Continue before it sends the body
	begun   bool // the handler has read from the body
	ended   bool // the body was read to EOF
	late    bool // the peer stalled for too long
}

// paceBody limits the pace of the body of r. It returns nil if there is no body or no
// limit.
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

// Limits for the unread rest of a body. net/http would read up to 256 KiB of it before it
// sends the response, and so wait for a client that sends its body late or waits for the
// response first.
const (
	restBytes   = 256 << 10             // maximum that is read before the response, to reuse the connection,
	restTime    = 20 * time.Millisecond // within this time
	lingerBytes = 4 << 20               // maximum that is read after the response,
	lingerTime  = time.Second           // within this time: a proxy on a busy machine may send for a second
)

// finish is called before the header of the response is sent. It reads the rest of the
// body if it has already arrived. Otherwise it makes the response the last one on the
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

// withheld reports whether the peer is waiting for 100 Continue.
func (b *pacedBody) withheld() bool { return b.expects && !b.begun }

// end records the EOF and removes the read deadline. From now on net/http watches the
// connection in the background, and a deadline would cancel the context of the request.
func (b *pacedBody) end() {
	b.ended = true
	_ = b.conn.SetReadDeadline(time.Time{})
}

// linger sends the response and discards the rest of the body for a limited time. Closing
// a connection with unread bytes resets it, which a peer that is still sending, such as a
// proxy, reports as a failure of the server. A peer that expects 100 Continue may send the
// body without it, as Caddy does; it gets none once the response has begun.
func (b *pacedBody) linger() {
	if b.ended || b.streams {
		return
	}
	_ = b.conn.Flush()
	if !b.late {
		end := time.Now().Add(lingerTime)
		_ = b.conn.SetReadDeadline(end)
		if _, err := io.CopyN(io.Discard, b.ReadCloser, lingerBytes); err == nil {
			time.Sleep(time.Until(end)) // lets the peer read the response
		}
	}
	_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // net/http must not read more
}

// limit sets the deadline of the next read. Connections without deadlines, as in tests of
// a handler, are not limited.
func (b *pacedBody) limit(now time.Time) {
	_ = b.conn.SetReadDeadline(b.pace.deadline(now, 0))
}
