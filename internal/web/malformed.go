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

	"holdfast/internal/errcode"
)

// A malformed HTTP request, such as one for /storage/%zz, never reaches a handler:
// net/http writes its own response in plain text to the connection and closes it. Our
// connections write the error of the service instead, with the same status. Over TLS they
// see only encrypted bytes, so the response is that of net/http. A type of our own around
// a tls.Conn would lose HTTP/2, which net/http serves only on a *tls.Conn, unless the
// handshake was done before net/http gets the connection: then its limits, its log and
// its place in the shutdown would be ours too. HTTP/2 itself resets the stream.

// Errors of requests that net/http refuses.
var (
	ErrHeaderTooLarge   = errcode.New(errcode.Invalid, "the request line and the header are too large")
	ErrTransferEncoding = errcode.New(errcode.Invalid, "unsupported Transfer-Encoding: use chunked")
	errMalformed        = errcode.New(errcode.Invalid, "malformed HTTP request: check the request line, Host and the header fields")
	errExpectation      = errcode.New(errcode.Invalid, "unsupported Expect: use 100-continue")
	errVersion          = errcode.New(errcode.Invalid, "unsupported version of HTTP: use HTTP/1.1")
)

// refusals are these errors by the status of net/http.
var refusals = map[int]error{
	http.StatusBadRequest:                  errMalformed,
	http.StatusExpectationFailed:           errExpectation,
	http.StatusRequestHeaderFieldsTooLarge: ErrHeaderTooLarge,
	http.StatusNotImplemented:              ErrTransferEncoding,
	http.StatusHTTPVersionNotSupported:     errVersion,
}

// MalformedHandler is a handler that also answers malformed requests.
type MalformedHandler interface {
	// ServeMalformed answers a malformed request with a status. r has the address of the
	// peer and, if they could be read, the method and the target.
	ServeMalformed(w http.ResponseWriter, r *http.Request, status int)
}

// The header of the response that net/http writes to a malformed request, after the
// status with its text and maybe a reason.
const refusedHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusedExpectation begins the response to an expectation other than 100-continue, after
// which net/http waits for the body that the client has not sent. No service has this
// status.
const refusedExpectation = "HTTP/1.1 417 Expectation Failed\r\n"

// malformedStatus returns the status of such a response, or 0 if p is not one. Responses
// of handlers have more header fields, at least a date.
func malformedStatus(p []byte) int {
	const version, digits = "HTTP/1.1 ", 3
	if len(p) < len(version)+digits || string(p[:len(version)]) != version {
		return 0
	}
	status, err := strconv.Atoi(string(p[len(version) : len(version)+digits]))
	if err != nil || refusals[status] == nil {
		return 0
	}
	if i := bytes.IndexByte(p, '\r'); bytes.HasPrefix(p, []byte(refusedExpectation)) || i >= 0 && bytes.HasPrefix(p[i:], []byte(refusedHeader)) {
		return status
	}
	return 0
}

// ServeMalformed implements MalformedHandler: the service that owns the path writes the
// error.
func (m *Mux) ServeMalformed(w http.ResponseWriter, r *http.Request, status int) {
	at := m.Resolver.Resolve(r)
	service := m.owner(at.Path)
	refusing := *service
	refusing.Serve = func(http.ResponseWriter, *http.Request, Address) error { return refusals[status] }
	refusing.Error = func(w http.ResponseWriter, r *http.Request, err error) {
		service.Error(withStatus{w, status}, r, err)
	}
	m.serve(&refusing, w, r, at)
}

// withStatus has a status of its own.
type withStatus struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w withStatus) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }

// lineBytes is the length of the stored part of a request line, enough to find the
// service.
const lineBytes = 512

// requestLine is the beginning of the current request of a connection.
type requestLine struct {
	text  []byte
	whole bool // the line is complete
	ahead byte // first byte of the next request, if hasAhead; read while this one is answered
	has   bool
}

// next starts the next request.
func (l *requestLine) next() {
	l.text, l.whole = l.text[:0], false
	if l.has {
		l.text, l.has = append(l.text, l.ahead), false
	}
}

// add adds bytes that were read into a buffer of the given size. After a body net/http
// reads a single byte to detect a disconnect: it belongs to the next request.
func (l *requestLine) add(p []byte, size int) {
	if l.whole {
		if size == 1 && len(p) == 1 {
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

// request returns the malformed request of the line.
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

// answerMalformed writes the error of the service in place of that of net/http. It
// lingers, because closing the connection would discard the response for a peer that is
// still sending: see pacedBody.linger.
func (c *conn) answerMalformed(status int) error {
	a := &shortAnswer{header: http.Header{"Connection": {"close"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}}
	r := c.line.request(c.RemoteAddr())
	c.malformed.ServeMalformed(a, r, status)
	if r.Method == http.MethodHead {
		a.body.Reset()
	}
	if _, err := c.TCPConn.Write(a.bytes()); err != nil {
		return err
	}
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes) // until the peer has closed its side too
	return nil
}

// shortAnswer is a response that is written in one piece.
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

// bytes returns the response in wire format.
func (a *shortAnswer) bytes() []byte {
	a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) + "\r\n")
	_ = a.header.Write(&b) // a buffer never fails
	b.WriteString("\r\n")
	b.Write(a.body.Bytes())
	return b.Bytes()
}
