package app

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/web"
	"holdfast/internal/workload/desync"
)

// TestDesyncOnEveryListener sends ambiguous requests to each listener, with and without TLS. The listener refuses them in
// its own format, and answers nothing behind them. TestDesync in package web checks the handler's view.
func TestDesyncOnEveryListener(t *testing.T) {
	t.Parallel()
	w := openWalked(t)
	handlers := w.handlers()
	handlers[service.Redirect] = w.listenerHandler(service.Redirect, new(atomic.Bool)) // exists only with a domain
	paths := map[string]string{service.Main: "/1.5/1/storage/tabs/x", service.Internal: "/internal/ext-storage/x", service.Admin: "/read-only"}
	for name, h := range handlers {
		for _, encrypted := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + " with TLS"}[encrypted], func(t *testing.T) {
				t.Parallel()
				dial := serveListener(t, w.instance.Handler(name, h), encrypted)
				path, known := paths[name]
				if !known {
					path = "/bucket/key"
				}
				for _, d := range desync.Cases() {
					var refusal strings.Builder
					statuses := desync.Exchange(dial(&refusal), strings.NewReader(d.Wire(path, "localhost", path)))
					checkDesync(t, d, statuses, refusal.String())
				}
			})
		}
	}
}

func checkDesync(t *testing.T, d desync.Case, statuses []int, answer string) {
	t.Helper()
	wrong := func(status int) bool { return status >= http.StatusInternalServerError }
	switch {
	case d.Second:
		if len(statuses) != 2 || slices.ContainsFunc(statuses, wrong) {
			t.Errorf("%s: answers %v, want two", d.Name, statuses)
		}
	case d.Status == desync.BodyRefused:
		if len(statuses) != 1 || wrong(statuses[0]) {
			t.Errorf("%s: answers %v, want one", d.Name, statuses)
		}
	case !slices.Equal(statuses, []int{d.Status}):
		t.Errorf("%s: answers %v, want %d", d.Name, statuses, d.Status)
	case !strings.Contains(answer, "\r\nDate: ") || strings.Contains(answer, "text/plain"):
		t.Errorf("%s: not the service's error: %.300q", d.Name, answer)
	}
}

// serveListener serves h as the binary does. dial connects, and copies the server's bytes.
func serveListener(t *testing.T, h http.Handler, encrypted bool) (dial func(to io.Writer) net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewServer(h, web.DefaultLimits(), slog.New(slog.DiscardHandler))
	if encrypted {
		pair := httptest.NewUnstartedServer(nil) // for its certificate
		pair.StartTLS()
		server.TLSConfig = &tls.Config{Certificates: pair.TLS.Certificates, MinVersion: tls.VersionTLS12}
		pair.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, server, l, web.Drain{Grace: 10 * time.Second}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(to io.Writer) net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if encrypted {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		}
		return &copied{conn, to}
	}
}

type copied struct {
	net.Conn
	to io.Writer
}

func (c *copied) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.to.Write(p[:n])
	return n, err
}

func (c *copied) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }
