package web

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Malformed HTTP requests, e.g. for /storage/%zz, never reach a handler: net/http writes a plain-text response and
// closes the connection. Our connections replace this response by the service's error with the same status. Requests that
// our connections refuse themselves (see framing) take the same way: net/http sees poison instead of the rest.

// These are the errors for requests that net/http refuses.
var (
	ErrHeaderTooLarge   = errcode.New(errcode.Invalid, "the request line and the header are too large")
	ErrTransferEncoding = errcode.New(errcode.Invalid, "unsupported Transfer-Encoding: use chunked")
	errMalformed        = errcode.New(errcode.Invalid, "malformed HTTP request: check the request line, Host and the header fields")
	errExpectation      = errcode.New(errcode.Invalid, "unsupported Expect: use 100-continue")
	errVersion          = errcode.New(errcode.Invalid, "unsupported HTTP version: use HTTP/1.1")
)

// refusals are the statuses with which net/http refuses requests.
var refusals = map[int]error{
	http.StatusBadRequest:                  errMalformed,
	http.StatusExpectationFailed:           errExpectation,
	http.StatusRequestHeaderFieldsTooLarge: ErrHeaderTooLarge,
	http.StatusNotImplemented:              ErrTransferEncoding,
	http.StatusHTTPVersionNotSupported:     errVersion,
}

// MalformedHandler is a handler that also answers malformed requests.
type MalformedHandler interface {
	// r contains the peer's address and, if they could be read, method and target. err says why the request is refused
	// with this status.
	ServeMalformed(w http.ResponseWriter, r *http.Request, status int, err error)
}

// refusedHeader follows the status line in net/http's own responses.
const refusedHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusedExpectation begins the response after which net/http waits for the unsent body.
const refusedExpectation = "HTTP/1.1 417 Expectation Failed\r\n"

// malformedStatus recognizes net/http's own responses: handlers' responses have more header fields, at least a date.
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

// ServeMalformed writes err in the form of the service that owns the path, with the given status.
func (m *Mux) ServeMalformed(w http.ResponseWriter, r *http.Request, status int, err error) {
	at := m.Resolver.Resolve(r)
	service := m.owner(at.Path)
	refusing := *service
	refusing.Serve = func(http.ResponseWriter, *http.Request, Address) error { return err }
	refusing.Error = func(w http.ResponseWriter, r *http.Request, err error) {
		service.Error(withStatus{w, status}, r, err)
	}
	m.serve(&refusing, w, r, at)
}

// withStatus replaces the ErrorWriter's status: net/http decided it, and it would be 400 for each of these errors.
type withStatus struct {
	http.ResponseWriter
	status int
}

func (w withStatus) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }

// refused returns the refused request, as far as its first line is known.
func (c *wire) refused() *http.Request {
	r := &http.Request{
		URL: &url.URL{}, Header: http.Header{}, Body: http.NoBody, RemoteAddr: c.RemoteAddr().String(), TLS: c.tlsState,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	line := c.framing.request
	if len(line) == 0 {
		line = c.framing.line // refused before its end
	}
	method, rest, ok := strings.Cut(string(line), " ")
	if target, _, _ := strings.Cut(rest, " "); ok {
		r.Method, r.RequestURI = method, target
	}
	return r
}

// answerMalformed sends the service's error. Then it lingers, because closing would discard the response for a peer that
// is still sending; see pacedBody.linger.
func (c *wire) answerMalformed(status int) error {
	err := refusals[status]
	if ours := c.framing.refusal; ours != nil {
		status, err = ours.status, ours.err
	}
	a := &shortAnswer{header: http.Header{"Connection": {"close"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}}
	r := c.refused()
	c.server.malformed.ServeMalformed(a, r, status, err)
	if r.Method == http.MethodHead {
		a.body.Reset()
	}
	if _, err := c.Conn.Write(a.bytes()); err != nil {
		return err
	}
	_ = c.CloseWrite()
	_ = discard(c.Conn, c) // until the peer closes its side
	return nil
}

// shortAnswer collects a response that is written to the connection without net/http.
type shortAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *shortAnswer) Header() http.Header { return a.header }

func (a *shortAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *shortAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// bytes returns the response as sent.
func (a *shortAnswer) bytes() []byte {
	a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) + "\r\n")
	_ = a.header.Write(&b)
	b.WriteString("\r\n")
	b.Write(a.body.Bytes())
	return b.Bytes()
}
