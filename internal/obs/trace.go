package obs

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceContext returns the headers traceparent and tracestate of W3C Trace Context for what
// a request causes: those of its span, or what the client sent. Both are "" without a valid
// traceparent. state is also "" if it is not valid or longer than the 512 characters that
// everybody must accept.
func TraceContext(r *http.Request) (parent, state string) {
	out := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(traceOf(r), out)
	if state = out["tracestate"]; len(state) > 512 {
		state = ""
	}
	return out["traceparent"], state
}

// TraceID returns the trace ID of TraceContext, 32 hexadecimal digits, or "".
func TraceID(r *http.Request) string {
	if c := trace.SpanContextFromContext(traceOf(r)); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}

// traceOf returns a context with the span of a request or of its client.
func traceOf(r *http.Request) context.Context {
	ctx := r.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	return ctx
}
