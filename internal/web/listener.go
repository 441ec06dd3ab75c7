package web

import (
	"net"
	"net/http"
	"time"
)

// listener gives a new connection the time of an idle one for its first byte.
// net/http counts the time for the first header from the accept on, but clients
// open connections before they have a request for them: browsers in advance, and
// Go's client when another connection becomes free before the new one is up. A
// request that is sent as such a connection is closed is lost. Over TLS the first
// byte is that of the handshake; a client of HTTP/1.1 then has the time of a header.
type listener struct {
	net.Listener
	header, idle time.Duration // 0: no limit
}

func newListener(l net.Listener, srv *http.Server) net.Listener {
	if srv.ReadHeaderTimeout <= 0 {
		return l
	}
	return &listener{Listener: l, header: srv.ReadHeaderTimeout, idle: srv.IdleTimeout}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		limitUnsent(tcp)
		return &newConn{TCPConn: tcp, of: l}, nil
	}
	return c, nil
}

// newConn is a connection that waits for its first byte as long as an idle one.
type newConn struct {
	*net.TCPConn
	of    *listener
	begun bool // by the one goroutine that reads before there is a request
}

// Read implements net.Conn.
func (c *newConn) Read(p []byte) (int, error) {
	if c.begun {
		return c.TCPConn.Read(p)
	}
	_ = c.SetReadDeadline(after(c.of.idle))
	n, err := c.TCPConn.Read(p)
	c.begun = true
	_ = c.SetReadDeadline(after(c.of.header))
	return n, err
}

// after is the deadline of a wait; 0 has none.
func after(d time.Duration) (deadline time.Time) {
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	return deadline
}
