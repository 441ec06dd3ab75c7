package web_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// journey records which paths a handler has served.
type journey struct {
	mu   sync.Mutex
	seen []string
}

func (j *journey) service() web.Service {
	return web.Service{
		Name: "j", Route: func(string) string { return "j" },
		Serve: func(w http.ResponseWriter, r *http.Request, at web.Address) error {
			j.mu.Lock()
			j.seen = append(j.seen, at.Path)
			j.mu.Unlock()
			n, err := io.Copy(io.Discard, r.Body)
			if len(r.Trailer) > 0 && !allNil(r.Trailer) {
				return errcode.New(errcode.Internal, "the request has trailers")
			}
			if err != nil {
				return errcode.Wrap(errcode.Invalid, "the body is incomplete", err)
			}
			fmt.Fprintf(w, "%d", n)
			return nil
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusBadRequest
			if errcode.Is(err, errcode.Internal) {
				status = http.StatusInternalServerError
			}
			http.Error(w, errcode.Message(err), status)
		},
	}
}

func allNil(h http.Header) bool {
	for _, v := range h {
		if v != nil {
			return false
		}
	}
	return true
}

// TestDesync sends all kinds of ambiguous requests, with another request behind. A refused request gets one answer, and
// nothing behind it is served. It covers connections with and without TLS, and bytes that arrive one by one.
func TestDesync(t *testing.T) {
	t.Parallel()
	seen := &journey{}
	h := &web.Mux{Resolver: &web.Resolver{}, Options: web.Options{Log: quiet, Pace: web.DefaultLimits().Pace}, Default: seen.service()}
	plain := start(t, h, web.DefaultLimits())
	encrypted := startTLS(t, h, web.DefaultLimits())
	for _, way := range []struct {
		name string
		dial func(t *testing.T) net.Conn
		slow bool
	}{
		{"plain", func(t *testing.T) net.Conn { return dial(t, plain) }, false},
		{"by the byte", func(t *testing.T) net.Conn { return dial(t, plain) }, true},
		{"TLS", func(t *testing.T) net.Conn { return dialTLS(t, encrypted, "http/1.1") }, false},
		{"TLS without ALPN", func(t *testing.T) net.Conn { return dialTLS(t, encrypted) }, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			for i, d := range webtest.Desyncs() {
				second := fmt.Sprintf("/%s/%d", strings.ReplaceAll(way.name, " ", "-"), i)
				text := d.Wire("/first", "a", second)
				var sent io.Reader = strings.NewReader(text)
				if way.slow {
					if len(text) > 2000 {
						continue
					}
					sent = onlyReader{iotest.OneByteReader(sent)}
				}
				statuses := webtest.Exchange(way.dial(t), onlyReader{sent})
				seen.mu.Lock()
				served := slices.Contains(seen.seen, second)
				seen.mu.Unlock()
				want := []int{d.Status}
				switch d.Status {
				case webtest.BodyRefused:
					want = []int{http.StatusBadRequest}
				case 0:
					want = []int{http.StatusOK, http.StatusOK}
				}
				if !slices.Equal(statuses, want) || served != d.Second {
					t.Errorf("%s: answers %v, want %v; second request served: %v", d.Name, statuses, want, served)
				}
			}
		})
	}
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func startTLS(t *testing.T, h http.Handler, l web.Limits) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewServer(h, l, quiet)
	srv.TLSConfig = &tls.Config{Certificates: testCertificates(), MinVersion: tls.VersionTLS12}
	stopAtEnd(t, srv, listener)
	return listener.Addr().String()
}

func dialTLS(t *testing.T, address string, protocols ...string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS12}) //nolint:gosec // its own server
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
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
