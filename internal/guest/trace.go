package guest

import "context"

// Trace is the W3C Trace Context of a request: its headers traceparent and tracestate, each
// valid. Zero: none.
type Trace struct{ Parent, State string }

type traceKey struct{}

// WithTrace adds a trace to a context, for calls of other services.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
