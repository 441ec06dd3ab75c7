package web

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/fault"
)

// A request that is malformed by the rules of HTTP, such as one for /storage/%zz, never
// reaches a handler: net/http writes an answer of its own, in plain text, to the
// connection and closes it. Our connections write the service's error instead. Over TLS
// they see only what is encrypted, and the answer stays net/http's; HTTP/2 has none, it
// resets the stream.

// errMalformed is the error of such a request.
var errMalformed = fault.New(fault.Invalid, "malformed HTTP request: check the request line, Host and the header fields")

// Refuser is a handler that answers malformed requests too.
type Refuser interface {
	// Refuse answers a request of which only the address of its peer is known and,
	// where they could be read, the method and the target.
	Refuse(w http.ResponseWriter, r *http.Request)
}

// How an answer begins that net/http writes to a malformed request, behind which it
// may give a reason, and all of its header.
const (
	refusedStatus = "HTTP/1.1 400 Bad Request"
	refusedHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
)

// isRefused reports whether net/http writes such an answer. Those of handlers have more
// in their header, a date at least.
func isRefused(p []byte) bool {
	if len(p) < len(refusedStatus) || string(p[:len(refusedStatus)]) != refusedStatus {
		return false
	}
	i := bytes.IndexByte(p, '\r')
	return i >= 0 && bytes.HasPrefix(p[i:], []byte(refusedHeader))
}

// Refuse implements Refuser: the service that owns the path answers with its error.
func (m *Mux) Refuse(w http.ResponseWriter, r *http.Request) {
	at := m.Resolver.Resolve(r)
	refusing := *m.owner(at.Path)
	refusing.Serve = refuseMalformed
	m.serve(&refusing, w, r, at)
}

// refuseMalformed is the handler of malformed requests.
func refuseMalformed(http.ResponseWriter, *http.Request, Address) error { return errMalformed }

// lineBytes is how much of a request line is kept: enough to find the service.
const lineBytes = 512

// requestLine is the beginning of a connection's current request, as it was read.
type requestLine struct {
	text  []byte
	whole bool // nothing is added
	ahead byte // of the next request, where hasAhead: read while this one is answered
	has   bool
}

// next begins a request.
func (l *requestLine) next() {
	l.text, l.whole = l.text[:0], false
	if l.has {
		l.text, l.has = append(l.text, l.ahead), false
	}
}

// add adds what was read into a buffer of so many bytes. net/http reads a single byte
// when a body has ended, to notice that the peer leaves: it is the next request's.
func (l *requestLine) add(p []byte, room int) {
	if l.whole {
		if room == 1 && len(p) == 1 {
			l.ahead, l.has = p[0], true
		}
		return
	}
	p = p[:min(len(p), lineBytes-len(l.text))]
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		p, l.whole = p[:i], true
	}
	l.text = append(l.text, p...)
	l.whole = l.whole || len(l.text) == lineBytes
}

// request is the malformed request that the line begins.
func (l *requestLine) request(peer net.Addr) *http.Request {
	r := &http.Request{
		URL: &url.URL{}, Header: http.Header{}, Body: http.NoBody, RemoteAddr: peer.String(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	method, rest, ok := strings.Cut(string(l.text), " ")
	if target, _, _ := strings.Cut(rest, " "); ok {
		r.Method, r.RequestURI = method, target
	}
	return r
}

// startRequest is for http.Server.ConnState.
func startRequest(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok && state == http.StateIdle {
		c.line.next()
	}
}

// refuse writes the service's error in the place of net/http's. A peer that still
// sends would lose it when the connection is closed: see pacedBody.linger.
func (c *conn) refuse() error {
	a := &shortAnswer{header: http.Header{"Connection": {"close"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}}
	r := c.line.request(c.RemoteAddr())
	c.refuser.Refuse(a, r)
	if r.Method == http.MethodHead {
		a.body.Reset()
	}
	if _, err := c.TCPConn.Write(a.bytes()); err != nil {
		return err
	}
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes) // until the peer has closed its side, too
	return nil
}

// shortAnswer is an answer that is written at once.
type shortAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *shortAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *shortAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *shortAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// bytes is the answer as it goes over the wire.
func (a *shortAnswer) bytes() []byte {
	a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) + "\r\n")
	_ = a.header.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	b.Write(a.body.Bytes())
	return b.Bytes()
}
