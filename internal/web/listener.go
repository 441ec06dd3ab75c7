package web

import (
	"errors"
	"net"
	"os"
	"time"
)

// listener gives connections more time than net/http does: to clients that open a
// connection before they have a request, and to clients that read slowly but steadily.
type listener struct {
	net.Listener
	limits    Limits
	malformed MalformedHandler // nil: net/http answers malformed requests
}

// Accept implements net.Listener.
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

// conn is a connection of a listener.
type conn struct {
	*net.TCPConn
	limits    *Limits
	malformed MalformedHandler // nil: as in listener
	line      requestLine      // used only by the goroutine that reads
	begun     bool             // a byte was received; used only by the goroutine that reads
	sent      int64            // bytes; used only by the goroutine that writes
	acked     int64            // bytes that the peer had acknowledged at the last missed deadline
}

// Read allows a new connection the idle timeout for its first byte. net/http starts the
// header timeout at the accept. But clients open connections before they have a request:
// browsers in advance, and Go's client when another connection becomes free first. A
// request that is sent while such a connection is closed is lost. Over TLS the first byte
// is that of the handshake, and then a client of HTTP/1.1 has the header timeout.
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

// after returns the deadline of a timeout; 0 has none.
func after(d time.Duration) (deadline time.Time) {
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	return deadline
}

// Write continues after its deadline while the peer acknowledges earlier bytes. The
// write itself does not show this: the kernel buffers megabytes and accepts more only
// when a third of them has been sent, and a peer acknowledges in batches.
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

// maxGraces limits the time that a peer can earn at once, in grace periods. Batches of
// 60 KiB, which are usual, take that long at the default pace.
const maxGraces = 3

// earned returns the time that a peer has earned by acknowledging bytes since the last
// call.
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
