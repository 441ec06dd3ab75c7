package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/web"
)

// coalescing holds back the second write, which ends a TLS 1.3 handshake, and sends it with the third.
type coalescing struct {
	net.Conn
	writes int
	held   []byte
}

func (c *coalescing) Write(p []byte) (int, error) {
	c.writes++
	if c.writes == 2 {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	_, err := c.Conn.Write(append(c.held, p...))
	c.held = nil
	return len(p), err
}

// TestRequestWithTheHandshake checks that a first request, which arrives in the same segment as the end of the handshake,
// leaves no deadline behind: neither for its handler, nor for the HTTP/2 connection.
func TestRequestWithTheHandshake(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	l.Header, l.Idle = 100*time.Millisecond, 200*time.Millisecond
	long := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(4 * (l.Header + l.Idle)): // nothing signals that a connection stays open
		}
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			return errors.New("no TLS state")
		}
		_, err := io.WriteString(w, r.Proto)
		return err
	}).Handler(web.Options{Log: quiet, Pace: l.Pace})
	address := startTLS(t, long, l)
	connect := func(protocol string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return tls.Client(&coalescing{Conn: conn}, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13})
	}

	one := connect("http/1.1")
	send(t, one, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(one), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "HTTP/1.1" || err != nil {
		t.Errorf("HTTP/1: %s %q, %v", res.Status, body, err)
	}

	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return connect("h2"), nil
	}}}
	res, err = client.Get("https://" + address)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "HTTP/2.0" || err != nil {
		t.Errorf("HTTP/2: %s %q, %v", res.Status, body, err)
	}
	client.CloseIdleConnections()
}

// TestTLSHandshake checks the answers to clients that do not complete a handshake.
func TestTLSHandshake(t *testing.T) {
	t.Parallel()
	log := &journal{}
	l := web.DefaultLimits()
	l.Header = time.Second // a handshake takes longer than a tenth on a busy machine
	address := startTLSWith(t, reader(t, l), l, log)
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"}
	for _, method := range methods {
		plain := dial(t, address)
		send(t, plain, method+" / HTTP/1.1\r\nHost: a\r\n\r\n")
		if got, _ := io.ReadAll(plain); !strings.HasPrefix(string(got), "HTTP/1.0 400 ") {
			t.Errorf("%s without TLS: got %q", method, got)
		}
	}
	slow := dial(t, address)
	send(t, slow, "\x16\x03\x01")
	if got, err := io.ReadAll(slow); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("an endless handshake: got %q, %v", got, err)
	}
	acme := dialTLSOf(t, address, &tls.Config{NextProtos: []string{"acme-tls/1"}})
	if got, err := io.ReadAll(acme); len(got) > 0 || err != nil {
		t.Errorf("acme-tls/1: got %q, %v", got, err)
	}
	if text := log.String(); !strings.Contains(text, "this port uses TLS, and the client sent plain HTTP: write https://") || strings.Count(text, "TLS handshake error from 127.0.0.1:") != len(methods)+1 {
		t.Errorf("logged %s", text)
	}
}

// TestTLSOnPlainListener sends the start of a TLS handshake, without an end of a line. The client gets an answer at
// once, and an earlier request on the connection makes the bytes a malformed request.
func TestTLSOnPlainListener(t *testing.T) {
	t.Parallel()
	address, seen := startNamed(t)
	for _, hello := range []string{"\x16", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"} {
		conn := dial(t, address)
		send(t, conn, hello)
		if got, err := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 400 ") || !strings.HasSuffix(string(got), "\r\nthis port speaks HTTP: use http\n") {
			t.Errorf("%q: got %q, %v", hello, got, err)
		}
	}
	later := dial(t, address)
	send(t, later, "PUT /b/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\x16\x03\x01\r\n\r\n")
	r := bufio.NewReader(later)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusOK || res.Body.Close() != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusBadRequest || res.Body.Close() != nil {
		t.Errorf("after a request: %v", err)
	}
	if seen.mu.Lock(); seen.all["beebeePUT200"] != 1 {
		t.Errorf("observed %v", seen.all)
	}
	seen.mu.Unlock()
}

// TestHTTP2Negotiated checks that HTTP/2 is served only if both sides negotiated it, and HTTP/1 only if they did not: the other
// one would pass its checks.
func TestHTTP2Negotiated(t *testing.T) {
	t.Parallel()
	seen := &journey{}
	h := &web.Mux{Resolver: &web.Resolver{}, Options: web.Options{Log: quiet, Pace: web.DefaultLimits().Pace}, Default: seen.service()}
	plain, encrypted := start(t, h, web.DefaultLimits()), startTLS(t, h, web.DefaultLimits())
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, tc := range map[string]struct {
		conn         net.Conn
		sends, start string
	}{
		"HTTP/2 without TLS":       {dial(t, plain), preface, "HTTP/1.1 505 "},
		"HTTP/2 instead of HTTP/1": {dialTLS(t, encrypted, "http/1.1"), preface, "HTTP/1.1 505 "},
		"HTTP/2 without ALPN":      {dialTLS(t, encrypted), preface, "HTTP/1.1 505 "},
		"HTTP/1 instead of HTTP/2": {dialTLS(t, encrypted, "h2"), "GET /b HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"neither":                  {dialTLS(t, encrypted, "h2"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\x00", ""},
	} {
		send(t, tc.conn, tc.sends)
		closeWrite(tc.conn)
		if got, _ := io.ReadAll(tc.conn); !strings.HasPrefix(string(got), tc.start) || tc.start == "" && len(got) > 0 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if len(seen.seen) > 0 {
		t.Errorf("served %q", seen.seen)
	}
	conn := dialTLS(t, encrypted, "h2")
	send(t, conn, preface)
	var header [9]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil || header[3] != 4 {
		t.Errorf("HTTP/2: the server begins with %x, %v; want SETTINGS", header, err)
	}
}
