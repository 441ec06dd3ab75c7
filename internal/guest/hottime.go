package guest

import (
	"context"
	"sync/atomic"
	"time"
)

// hotTime is the remaining time in nanoseconds.
type hotTime struct{ left atomic.Int64 }

type hotTimeKey struct{}

// WithHotTime limits the total time of a request's hot state operations, in case the store does not respond.
func WithHotTime(ctx context.Context, total time.Duration) context.Context {
	t := &hotTime{}
	t.left.Store(int64(total))
	return context.WithValue(ctx, hotTimeKey{}, t)
}

// HotTime returns the time left, and a function that subtracts the time an operation took. Without WithHotTime, it is
// always a minute. Both are safe for concurrent use.
func HotTime(ctx context.Context) (left time.Duration, spend func(time.Duration)) {
	t, ok := ctx.Value(hotTimeKey{}).(*hotTime)
	if !ok {
		return time.Minute, func(time.Duration) {}
	}
	return time.Duration(t.left.Load()), func(d time.Duration) { t.left.Add(-int64(d)) }
}
