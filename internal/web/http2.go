package web

import (
	"net/http"
	"time"
)

// These limits apply to each HTTP/2 connection. net/http has limits, too, but counts only some of these things, and keeps
// the decoded headers outside the memory budget. All listeners use them: see docs/decisions/0065-listeners.md.
const (
	// http2Streams is how many requests a client may have open. RFC 9113, section 6.5.2, recommends at least 100. net/http
	// queues up to four times as many requests that were reset before they began.
	http2Streams = 100

	// http2Table is the size of both HPACK tables. Clients use the protocol's initial size before they know ours, so it
	// cannot be smaller.
	http2Table = 4 << 10

	// http2Frame is the largest frame that a client may send, and so the size of the buffer that net/http keeps for a
	// connection. With the protocol's minimum of 16 KiB, uploads cost a fifth more CPU time; with net/http's own 1 MiB,
	// nothing less.
	http2Frame = 64 << 10

	// These are how much of its requests' bodies a client may send before handlers read it. net/http keeps it in memory.
	http2StreamBuffer = 1 << 20
	http2Buffer       = 1 << 20

	// trailerFields is how many trailers a request may announce or send. We ignore them all, and no client of our protocols
	// sends any: S3's trailing checksums are inside the body.
	trailerFields = 16
)

// configureHTTP2 sets the limits that net/http enforces. frames limits the rest.
func configureHTTP2(s *http.Server, l Limits) {
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          http2Streams,
		MaxDecoderHeaderTableSize:     http2Table,
		MaxEncoderHeaderTableSize:     http2Table,
		MaxReadFrameSize:              http2Frame,
		MaxReceiveBufferPerStream:     http2StreamBuffer,
		MaxReceiveBufferPerConnection: http2Buffer,
		// A peer that has vanished has open streams, which IdleTimeout does not end.
		SendPingTimeout:  l.Idle,
		PingTimeout:      l.Pace.Grace,
		WriteByteTimeout: l.Pace.Grace, // conn.Write allows more while the peer reads
	}
}

// allowance limits how often a client may do something. It starts full.
type allowance struct {
	most  int           // at once
	every time.Duration // until one more is allowed
	used  int           // spent and not regained
	since time.Time     // since when nothing was regained
}

// spend reports whether n more are allowed.
func (a *allowance) spend(n int, now time.Time) bool {
	if a.used == 0 {
		a.since = now
	}
	regained := int(now.Sub(a.since) / a.every)
	a.since = a.since.Add(time.Duration(regained) * a.every)
	a.used = max(a.used-regained, 0)
	a.used += n
	return a.used <= a.most
}
