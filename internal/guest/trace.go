package guest

import "context"

type traceKey struct{}

// WithTrace adds the header traceparent of W3C Trace Context to a context, for calls of
// other services.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// TraceOf returns the header traceparent, or "".
func TraceOf(ctx context.Context) string {
	text, _ := ctx.Value(traceKey{}).(string)
	return text
}
