package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/internal/web"
)

// BenchmarkServe measures requests through a listener, over each protocol.
func BenchmarkServe(b *testing.B) {
	h := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		_, _ = io.Copy(io.Discard, r.Body)
		_, err := io.WriteString(w, "ok")
		return err
	}).Handler(web.Options{Log: quiet, Quiet: true, Pace: web.DefaultLimits().Pace})
	for _, protocol := range []string{"plain", "http/1.1", "h2"} {
		base, client := benchServer(b, h, protocol)
		for _, size := range []int{0, 8 << 20} {
			name := protocol + map[bool]string{true: " small", false: " 8 MiB"}[size == 0]
			b.Run(name, func(b *testing.B) {
				body := make([]byte, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPut, base+"/a/path", bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					res, err := client.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
		client.CloseIdleConnections()
	}
}

func benchServer(b *testing.B, h http.Handler, protocol string) (base string, client *http.Client) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := web.NewServer(h, web.DefaultLimits(), quiet)
	base = "http://" + l.Addr().String()
	transport := &http.Transport{}
	if protocol != "plain" {
		pair := httptest.NewUnstartedServer(nil) // for its certificate
		pair.StartTLS()
		srv.TLSConfig = &tls.Config{Certificates: pair.TLS.Certificates, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
		pair.Close()
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
		transport.ForceAttemptHTTP2 = protocol == "h2"
		base = "https://" + l.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, srv, l, web.Drain{Grace: 10 * time.Second}) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return base, &http.Client{Transport: transport}
}
