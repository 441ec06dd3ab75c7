package guest

import (
	"context"
	"sync/atomic"
	"time"
)

// hotTime is how long a request may still wait for hot state, in nanoseconds.
type hotTime struct{ left atomic.Int64 }

type hotTimeKey struct{}

// WithHotTime limits how long all operations of hot state of a request may take together:
// a store that does not respond delays it by this at most.
func WithHotTime(ctx context.Context, most time.Duration) context.Context {
	t := &hotTime{}
	t.left.Store(int64(most))
	return context.WithValue(ctx, hotTimeKey{}, t)
}

// HotTime returns how long an operation may take, and a function to report how long it
// took.
func HotTime(ctx context.Context) (left time.Duration, spend func(time.Duration)) {
	t, ok := ctx.Value(hotTimeKey{}).(*hotTime)
	if !ok {
		return time.Minute, func(time.Duration) {}
	}
	return time.Duration(t.left.Load()), func(d time.Duration) { t.left.Add(-int64(d)) }
}
