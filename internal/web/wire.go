package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// wire is a connection as net/http sees it: without TLS, and without bytes that no request may contain.
//
// TLS ends here. In net/http, it would end where only net/http sees the decrypted bytes. net/http serves HTTP/2 on any
// connection that begins with a client's preface, if http.Protocols.UnencryptedHTTP2 is set.
type wire struct {
	net.Conn           // tls, if the listener uses TLS
	paced    *conn     // below TLS; nil if the listener is not TCP
	tls      *tls.Conn // nil if the listener does not use TLS
	server   *Server

	// Only the reading goroutine uses these. Handlers read tlsState, but only after the first request was read.
	opened   bool // TLS handshake done
	begun    bool // first bytes of the first request received
	failed   error
	tlsState *tls.ConnectionState
	framing  framing
	frames   *frames
	rest     []byte // read from Conn, and not yet by net/http
}

func newWire(c net.Conn, s *Server, config *tls.Config) *wire {
	w := &wire{Conn: c, server: s}
	if tcp, ok := c.(*net.TCPConn); ok {
		w.paced = &conn{TCPConn: tcp, limits: &s.limits}
		w.Conn = w.paced
	}
	if config != nil {
		w.tls = tls.Server(w.Conn, config)
		w.Conn = w.tls
	}
	return w
}

// Read returns bytes of at most one request, so that framing.request is always the request line of the request that
// net/http reads or serves.
func (c *wire) Read(p []byte) (int, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	if c.isHTTP2() {
		n, err := c.receive(p)
		if invalid := c.frames.check(p[:n]); invalid != nil {
			c.server.ErrorLog.Printf("HTTP/2 connection from %s ended: %v", c.RemoteAddr(), invalid)
			c.failed = silent(invalid)
			return 0, c.failed
		}
		return n, err
	}
	for {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		if c.framing.refusal != nil && n == 0 {
			return 0, io.EOF
		}
		if c.framing.refusal != nil {
			return n, nil
		}
		var err error
		if n == 0 {
			n, err = c.receive(p)
			if c.tls == nil && !c.begun && n > 0 {
				if c.begun = true; p[0] == tlsHandshake {
					return 0, c.refuseTLS()
				}
			}
		}
		if n = c.check(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// check moves together the bytes that net/http may see and returns their number. c.rest keeps those after the end of the
// request.
func (c *wire) check(p []byte) (kept int) {
	for i := 0; i < len(p); {
		n, keep, ended := c.framing.next(p[i:])
		if keep {
			if kept < i {
				copy(p[kept:], p[i:i+n])
			}
			kept += n
		}
		i += n
		switch {
		case c.framing.refusal != nil:
			c.rest = []byte(poison)
			if kept == 0 {
				kept = copy(p, c.rest)
				c.rest = c.rest[kept:]
			}
			return kept
		case ended && i < len(p):
			c.rest = slices.Concat(p[i:], c.rest)
			return kept
		}
	}
	return kept
}

// tlsHandshake begins every TLS connection (RFC 8446, section 5.1: the content type of a record). No request begins with
// this byte.
const tlsHandshake = 0x16

// refuseTLS answers a client that uses TLS on a plain listener. It does not wait for the rest of the handshake. The client
// gets plain HTTP, because TLS libraries describe that better than an alert: Go's says that the server speaks HTTP, and
// others speak of a wrong version or of a record that is too long, which users search for.
func (c *wire) refuseTLS() error {
	_, _ = io.WriteString(c.Conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nthis port speaks HTTP: use http\n")
	c.server.ErrorLog.Printf("TLS handshake error from %s: this port speaks HTTP, and the client tried TLS: write http:// in the client's address, or let a proxy or server.tls_cert_file provide TLS", c.RemoteAddr())
	_ = c.CloseWrite()
	_ = discard(c.Conn, c) // closing at once would discard the answer, because the client has sent more
	c.failed = silent(errors.New("the client tried TLS"))
	return c.failed
}

// receive reads from Conn. Clients with TLS also connect before they have a request: see conn.Read. The TLS connection may
// have the first request already, from the segment that ended the handshake, so conn does not know when it begins.
func (c *wire) receive(p []byte) (int, error) {
	if c.tls == nil || c.begun || c.server.limits.Header <= 0 {
		return c.Conn.Read(p)
	}
	c.begun = true
	_ = c.SetReadDeadline(after(c.server.limits.Idle))
	n, err := c.Conn.Read(p)
	_ = c.SetReadDeadline(after(c.server.limits.Header))
	return n, err
}

// open completes the TLS handshake, in the connection's goroutine. It gets Limits.Header from its first byte on.
func (c *wire) open() error {
	if c.opened || c.tls == nil {
		return c.failed
	}
	c.opened = true
	if err := c.tls.HandshakeContext(context.Background()); err != nil {
		c.failed = silent(err)
		c.explain(err)
		return c.failed
	}
	state := c.tls.ConnectionState()
	c.tlsState = &state
	switch state.NegotiatedProtocol {
	case "", "http/1.1":
	case "h2":
		c.frames = newFrames(c.server.limits.HeaderBytes)
	default: // a certificate authority checks the certificate with acme-tls/1, and sends nothing
		c.failed = io.EOF
	}
	return c.failed
}

// silent returns err as an error of the network, after which net/http sends no response.
func silent(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }

func (c *wire) isHTTP2() bool { return c.frames != nil }

// explain logs why a handshake failed. It answers clients that do not use TLS, as net/http does.
func (c *wire) explain(err error) {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nthis port uses TLS: use https\n")
		err = errors.New("this port uses TLS, and the client sent plain HTTP: write https:// in the client's address")
	}
	c.server.ErrorLog.Printf("TLS handshake error from %s: %v", c.RemoteAddr(), err)
}

// looksLikeHTTP reports whether a connection begins with a method, of which each HTTP method has at least three letters.
func looksLikeHTTP(start [5]byte) bool {
	method, _, _ := strings.Cut(string(start[:]), " ")
	return len(method) >= len("GET") && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// Write sends bytes of net/http, or the service's error instead of net/http's response to a malformed request.
func (c *wire) Write(p []byte) (int, error) {
	if c.server.malformed != nil && !c.isHTTP2() {
		if status := malformedStatus(p); status != 0 {
			return len(p), c.answerMalformed(status)
		}
	}
	return c.Conn.Write(p)
}

// CloseWrite lets net/http end a connection whose peer is still sending. net/http looks for this method.
func (c *wire) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type wireKey struct{}

func withWire(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, wireKey{}, c)
}

// setTLS sets r.TLS, which net/http leaves empty for our connections.
func setTLS(r *http.Request) {
	if c, ok := r.Context().Value(wireKey{}).(*wire); ok {
		r.TLS = c.tlsState
	}
}
