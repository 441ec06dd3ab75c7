package obs

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceContext returns the W3C headers traceparent and tracestate for work that a request causes. Both are "" if
// there is no valid traceparent. state is also "" if it is invalid or longer than the 512 characters that everybody
// must accept.
func TraceContext(r *http.Request) (parent, state string) {
	out := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(traceOf(r), out)
	if state = out["tracestate"]; len(state) > 512 {
		state = ""
	}
	return out["traceparent"], state
}

// TraceID returns the trace ID in TraceContext, 32 hexadecimal digits, or "".
func TraceID(r *http.Request) string {
	if c := trace.SpanContextFromContext(traceOf(r)); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}

// traceOf returns a context with the server's span, or else with the client's.
func traceOf(r *http.Request) context.Context {
	ctx := r.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	return ctx
}
