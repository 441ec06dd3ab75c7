package web

import (
	"errors"
	"net"
	"os"
	"time"
)

// listener gives its connections more patience than net/http has: with clients
// that open a connection before they have a request, and with clients that read
// slowly but steadily.
type listener struct {
	net.Listener
	limits  Limits
	refuser Refuser // nil: net/http answers malformed requests
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp, limits: &l.limits, refuser: l.refuser}, nil
	}
	return c, nil
}

// conn is a connection of a listener.
type conn struct {
	*net.TCPConn
	limits  *Limits
	refuser Refuser     // nil: as in listener
	line    requestLine // by the one goroutine that reads
	begun   bool        // by the one goroutine that reads before there is a request
	sent    int64       // bytes, by the one goroutine that writes
	acked   int64       // bytes of those that the peer had acknowledged when it was last late
}

// Read gives a new connection the time of an idle one for its first byte. net/http
// counts the time for the first header from the accept on, but clients open
// connections before they have a request for them: browsers in advance, and Go's
// client when another connection becomes free before the new one is up. A request
// that is sent as such a connection is closed is lost. Over TLS the first byte is
// that of the handshake; a client of HTTP/1.1 then has the time of a header.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if c.refuser != nil && n > 0 {
		c.line.add(p[:n], len(p))
	}
	return n, err
}

func (c *conn) read(p []byte) (int, error) {
	if c.begun || c.limits.Header <= 0 {
		return c.TCPConn.Read(p)
	}
	_ = c.SetReadDeadline(after(c.limits.Idle))
	n, err := c.TCPConn.Read(p)
	c.begun = true
	_ = c.SetReadDeadline(after(c.limits.Header))
	return n, err
}

// after is the deadline of a wait; 0 has none.
func after(d time.Duration) (deadline time.Time) {
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	return deadline
}

// Write goes on after its deadline while the peer takes what was written before. A
// writer cannot see that: the kernel holds megabytes, and takes more only when a
// third of them has been sent, and a peer acknowledges in lumps as well.
func (c *conn) Write(p []byte) (written int, err error) {
	if c.refuser != nil && isRefused(p) {
		return len(p), c.refuse()
	}
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

// graces is how many graces a peer can earn at once. Lumps of 60 KiB, which are
// usual, take that long at the default pace.
const graces = 3

// earned is the time that a peer may still take for what it has acknowledged since
// it was last asked.
func (c *conn) earned() time.Duration {
	queued, ok := unacknowledged(c.TCPConn)
	if !ok || c.limits.Pace.Grace <= 0 {
		return 0
	}
	acked := c.sent - queued
	p := pace{rate: c.limits.Pace}
	earned := min(p.worth(int(acked-c.acked)), graces*c.limits.Pace.Grace)
	c.acked = acked
	return earned
}
