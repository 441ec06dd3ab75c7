package clock

import (
	"context"
	"time"
)

// Sleep waits on the system clock. It returns false if ctx was done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
