package web

import (
	"errors"
	"net"
	"os"
	"time"
)

// listener gives some connections more time than net/http does: clients that connect before they have a request, and
// slow but steady readers.
type listener struct {
	net.Listener
	limits    Limits
	malformed MalformedHandler // if nil, net/http answers malformed requests
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp, limits: &l.limits, malformed: l.malformed}, nil
	}
	return c, nil
}

type conn struct {
	*net.TCPConn
	limits    *Limits
	malformed MalformedHandler
	line      requestLine // reader goroutine only
	begun     bool        // first byte received; reader goroutine only
	sent      int64
	acked     int64 // bytes acknowledged when a deadline was last missed
}

// Read allows a new connection the idle timeout for its first byte. net/http starts the header timeout at the accept,
// but clients connect early: browsers in advance, and Go's client when another connection becomes free first. Closing
// such a connection may lose a request in transit.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if c.malformed != nil && n > 0 {
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
	if c.malformed != nil {
		if status := malformedStatus(p); status != 0 {
			return len(p), c.answerMalformed(status)
		}
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
