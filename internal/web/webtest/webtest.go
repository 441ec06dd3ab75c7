// Package webtest serves services for tests and creates requests with raw targets.
package webtest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/web"
)

// Transport is for parallel tests: httptest.Server.Close closes http.DefaultTransport's idle connections, so requests
// about to use them fail.
var Transport = http.DefaultTransport.(*http.Transport).Clone()

// Serve serves a service as the binary does, but on a plain httptest.Server. Without o.Log the test fails if the
// server logs a warning.
func Serve(t testing.TB, service web.Service, o web.Options) *httptest.Server {
	return Listen(t, &web.Mux{Resolver: &web.Resolver{}, Options: o, Default: service})
}

// Listen is like Serve, but for a Mux.
func Listen(t testing.TB, m *web.Mux) *httptest.Server {
	if m.Options.Log == nil {
		m.Options.Log = slog.New(failures{t})
	}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s
}

// failures fails the test if the server logs a warning or error, as it does for a 5xx or panic.
type failures struct{ t testing.TB }

func (f failures) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (f failures) WithAttrs([]slog.Attr) slog.Handler           { return f }
func (f failures) WithGroup(string) slog.Handler                { return f }

func (f failures) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %v", a)
		return true
	})
	f.t.Errorf("the server failed: %s", line)
	return nil
}

// Request returns a request with a raw target. base is the server's URL without a path; target is the path and query,
// sent byte for byte. A body is declared to be JSON.
func Request(t testing.TB, base, method, target string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base, body)
	if err != nil {
		t.Fatal(err)
	}
	// Opaque is sent unchanged; a path would be escaped again.
	r.URL = &url.URL{Scheme: "http", Host: r.Host, Opaque: target}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// SetHeaders replaces headers given as "Name: value"; an empty value removes the header.
func SetHeaders(r *http.Request, headers ...string) {
	for i, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if value == "" {
			r.Header.Del(name)
			continue
		}
		if !slices.ContainsFunc(headers[:i], func(earlier string) bool { return strings.HasPrefix(earlier, name+":") }) {
			r.Header.Del(name)
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
}

// HeapBytes returns the live heap after a collection, for tests that measure memory.
func HeapBytes() int64 {
	runtime.GC()
	runtime.GC() // a sync.Pool survives the first collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
