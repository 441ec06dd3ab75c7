// Package tracing sends a span for each request to an OpenTelemetry collector. It is separate from package obs
// because the exporter depends on all of gRPC.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces sends spans until Close. Nil sends none.
type Traces struct {
	provider *sdktrace.TracerProvider
}

// Start sends spans to a collector's base URL by OTLP over HTTP. If endpoint is "", the standard OpenTelemetry
// variables apply; if these are not set, Start returns nil. While the collector is unavailable, spans are dropped.
// Start replaces the library's only error handler in this process, which would print text.
func Start(ctx context.Context, endpoint, version string, log *slog.Logger) (*Traces, error) {
	var opts []otlptracehttp.Option
	switch {
	case endpoint != "":
		opts = append(opts, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("could not send traces", "error", err) }))
	res := resource.NewSchemaless(attribute.String("service.name", "holdfast"), attribute.String("service.version", version))
	return &Traces{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))}, nil
}

// Trace creates a request's span. Attributes contain the route but no path, which names users and records.
func (t *Traces) Trace(w http.ResponseWriter, r *http.Request, route string, next http.HandlerFunc) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.provider.Tracer("holdfast").Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	next(answer, r.WithContext(ctx))
	span.SetAttributes(attribute.Int("http.response.status_code", answer.status))
	if answer.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// statusWriter remembers the status for the span.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Close sends the remaining spans.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
