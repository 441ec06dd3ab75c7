package app

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/web"
)

// TestWrongProtocolOnEveryListener dials every listener with the wrong protocol: TLS on
// a plain port, and plain HTTP on a port with TLS. Each answers at once, and the log gives advice. With a domain,
// server.http_listen stays plain beside listeners with TLS.
func TestWrongProtocolOnEveryListener(t *testing.T) {
	t.Parallel()
	plain, encrypted := map[string]bool{}, map[string]bool{}
	for _, environ := range [][]string{nil, {"HOLDFAST_SERVER__DOMAIN=sync.example.org", "HOLDFAST_SERVER__ACME_DIRECTORY=https://127.0.0.1:1/"}} {
		var log logged
		data := t.TempDir()
		cfg, _, err := Load(Services(), "", append(environ, "HOLDFAST_DATA="+data, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := Open(t.Context(), Options{Config: cfg, Data: data, LogTo: &log, Mode: ModeServeMigrating})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		if err := a.openCertificates(); err != nil {
			t.Fatal(err)
		}
		for _, l := range cfg.listeners() {
			conn := dialListener(t, a, l.Name)
			sends, answer, says := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this port speaks HTTP: use http", "this port speaks HTTP, and the client tried TLS: write http://"
			if a.tlsConfig(l.Name) == nil {
				plain[l.Name] = true
			} else {
				encrypted[l.Name] = true
				sends, answer, says = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "this port uses TLS: use https", "this port uses TLS, and the client sent plain HTTP: write https://"
			}
			if _, err := io.WriteString(conn, sends); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(conn); !strings.Contains(strings.ToLower(string(got)), strings.ToLower(answer)) {
				t.Errorf("%s: got %q, %v, want %q", l.Name, got, err, answer)
			}
			if text := log.take(); !strings.Contains(text, says) || strings.Contains(text, "internal error") {
				t.Errorf("%s: logged %s", l.Name, text)
			}
		}
	}
	for _, name := range []string{service.Main, service.Admin, service.Internal, service.Redirect, "s3"} {
		if !plain[name] {
			t.Errorf("%s was not dialled as a plain listener: %v", name, plain)
		}
		if !encrypted[name] && name != service.Redirect && name != service.Admin {
			t.Errorf("%s was not dialled with TLS: %v", name, encrypted)
		}
	}
}

// dialListener serves a listener on a free port until the test ends, and connects to it.
func dialListener(t *testing.T, a *App, listener string) net.Conn {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := a.newServer(listener, new(atomic.Bool))
	go func() { ended <- web.Serve(ctx, server, l, web.Drain{Grace: time.Second}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}
