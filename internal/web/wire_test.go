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

	"golang.org/x/net/http2"

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
		return tls.Client(&coalescing{Conn: conn}, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13}) //nolint:gosec // its own server
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

	client := &http.Client{Transport: &http2.Transport{DialTLSContext: func(context.Context, string, string, *tls.Config) (net.Conn, error) {
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

// TestTLSHandshake checks what clients get that do not complete a handshake.
func TestTLSHandshake(t *testing.T) {
	t.Parallel()
	log := &journal{}
	l := web.DefaultLimits()
	l.Header = 100 * time.Millisecond
	address := startTLSWith(t, reader(t, l), l, log)
	plain := dial(t, address)
	send(t, plain, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got, _ := io.ReadAll(plain); !strings.HasPrefix(string(got), "HTTP/1.0 400 ") {
		t.Errorf("without TLS: got %q", got)
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
	if text := log.String(); !strings.Contains(text, "the client does not use TLS") || strings.Count(text, "TLS handshake error from 127.0.0.1:") != 2 {
		t.Errorf("logged %s", text)
	}
}
