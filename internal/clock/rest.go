package clock

import (
	"context"
	"time"
)

// Rest waits on the machine's clock, and reports whether the caller still does.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
