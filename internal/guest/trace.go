package guest

import "context"

// Trace is a request's W3C Trace Context: valid traceparent and tracestate headers, or empty.
type Trace struct{ Parent, State string }

// traceKey is the context key.
type traceKey struct{}

// WithTrace adds a trace to a context, for calls to other services.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the context's trace, or an empty trace.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
