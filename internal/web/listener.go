package web

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// listener makes a wire of each connection.
type listener struct {
	net.Listener
	server *Server
	tls    *tls.Config // nil without TLS
}

// Accept returns a wire, which ends TLS and checks the bytes that net/http reads.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newWire(c, l.server, l.tls), nil
}

// conn gives some peers more time than net/http does: clients that connect before they have a request, and slow but steady
// readers.
type conn struct {
	*net.TCPConn
	limits *Limits
	begun  bool // first byte received; reader goroutine only
	sent   int64
	acked  int64 // bytes acknowledged when a deadline was last missed
}

// Read allows a new connection the idle timeout for its first byte. net/http starts the header timeout at the accept,
// but clients connect early: browsers in advance, and Go's client when another connection becomes free first. Closing
// such a connection may lose a request in transit.
func (c *conn) Read(p []byte) (int, error) {
	if c.begun || c.limits.Header <= 0 {
		return c.TCPConn.Read(p)
	}
	_ = c.SetReadDeadline(after(c.limits.Idle))
	n, err := c.TCPConn.Read(p)
	c.begun = true
	_ = c.SetReadDeadline(after(c.limits.Header))
	return n, err
}

// after returns the deadline in d; 0 means none.
func after(d time.Duration) (deadline time.Time) {
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	return deadline
}

// Write continues past its deadline while the peer acknowledges earlier bytes. The write itself does not show
// progress: the kernel buffers megabytes and accepts more only after sending a third, and peers acknowledge in
// batches.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		n, err := c.TCPConn.Write(p[written:])
		written += n
		c.sent += int64(n)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		earned := c.earned()
		if earned <= 0 {
			return written, err
		}
		_ = c.SetWriteDeadline(time.Now().Add(earned))
	}
}

// maxGraces limits how much time a peer gains in one step, in grace periods. At the default pace, a batch of the
// usual 60 KiB takes that long.
const maxGraces = 3

// earned returns the time earned by bytes acknowledged since the last call.
func (c *conn) earned() time.Duration {
	queued, ok := unacknowledged(c.TCPConn)
	if !ok || c.limits.Pace.Grace <= 0 {
		return 0
	}
	acked := c.sent - queued
	p := pace{rate: c.limits.Pace}
	earned := min(p.earned(int(acked-c.acked)), maxGraces*c.limits.Pace.Grace)
	c.acked = acked
	return earned
}
