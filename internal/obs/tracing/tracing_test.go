//test:unraced compiling gRPC for the race detector takes a minute

package tracing_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"holdfast/internal/obs/tracing"
)

// TestTraces checks that a span has the caller's trace ID and no path.
func TestTraces(t *testing.T) {
	t.Parallel()
	received := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- body
	}))
	defer collector.Close()
	traces, err := tracing.Start(t.Context(), collector.URL, "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/1.5/4711/storage/secret", nil)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	traces.Trace(httptest.NewRecorder(), r, "the route", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := <-received
	id := []byte{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd}
	if !bytes.Contains(body, []byte("GET the route")) || !bytes.Contains(body, id) {
		t.Errorf("the span lacks its name or its trace: %q", body)
	}
	if bytes.Contains(body, []byte("4711")) {
		t.Error("the span holds the path")
	}
}

// TestTracesByEnvironment is not parallel, because it sets an environment variable.
func TestTracesByEnvironment(t *testing.T) {
	received := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if traces, err := tracing.Start(t.Context(), "", "1.2.3", slog.New(slog.DiscardHandler)); traces != nil || err != nil {
		t.Errorf("without an endpoint: %v, %v", traces, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	traces, err := tracing.Start(t.Context(), "", "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	traces.Trace(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), "x", http.NotFound)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-received; path != "/v1/traces" {
		t.Errorf("sent to %s", path)
	}
}

func TestNoTraces(t *testing.T) {
	t.Parallel()
	var none *tracing.Traces
	if err := none.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
