package web_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/workload/desync"
)

// journey records which paths a handler served.
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
// nothing behind it is served. It covers connections with and without TLS, and bytes that arrive singly.
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
			for i, d := range desync.Cases() {
				second := fmt.Sprintf("/%s/%d", strings.ReplaceAll(way.name, " ", "-"), i)
				text := d.Wire("/first", "a", second)
				var sent io.Reader = strings.NewReader(text)
				if way.slow {
					if len(text) > 2000 {
						continue
					}
					sent = onlyReader{iotest.OneByteReader(sent)}
				}
				statuses := desync.Exchange(way.dial(t), onlyReader{sent})
				seen.mu.Lock()
				served := slices.Contains(seen.seen, second)
				seen.mu.Unlock()
				want := []int{d.Status}
				switch d.Status {
				case desync.BodyRefused:
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
	return startTLSWith(t, h, l, io.Discard)
}

func startTLSWith(t *testing.T, h http.Handler, l web.Limits, log io.Writer) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewServer(h, l, slog.New(slog.NewTextHandler(log, nil)))
	srv.TLSConfig = &tls.Config{Certificates: testCertificates(), MinVersion: tls.VersionTLS12, NextProtos: []string{"acme-tls/1"}}
	stopAtEnd(t, srv, listener)
	return listener.Addr().String()
}

func dialTLS(t *testing.T, address string, protocols ...string) *tls.Conn {
	t.Helper()
	return dialTLSOf(t, address, &tls.Config{NextProtos: protocols})
}

func dialTLSOf(t *testing.T, address string, c *tls.Config) *tls.Conn {
	t.Helper()
	c.InsecureSkipVerify = true // its own server
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
