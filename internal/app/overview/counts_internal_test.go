package overview

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/app/service"
)

func TestCountLine(t *testing.T) {
	t.Parallel()
	all := []service.Counted{{Of: "account"}, {Of: "storage node"}}
	number := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		found stored
		age   time.Duration
		want  string
	}{
		{nil, 0, ""}, {stored{nil, nil}, time.Hour, ""}, {stored{number(1), number(0)}, 0, "1 account, 0 storage nodes"},
		{stored{number(999), number(1000)}, time.Minute, "999 accounts, 1,000 storage nodes"}, {stored{nil, number(-1234567)}, 3 * time.Minute, "-1,234,567 storage nodes (3 minutes ago)"},
		{stored{number(12345678), nil}, 3 * time.Hour, "12,345,678 accounts (3 hours ago)"}, {stored{number(-999), nil}, 0, "-999 accounts"},
	} {
		if got := countLine(all, c.found, c.age); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestCountsRest checks that counting takes at most a hundredth of the time, and does not delay pages.
func TestCountsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		var all counts
		ask := func(want int32) {
			t.Helper()
			start := time.Now()
			all.of("s").ask(t.Context(), "s", time.Now, func(context.Context) (stored, error) {
				reads.Add(1)
				time.Sleep(2 * time.Second)
				return stored{}, nil
			})
			synctest.Wait()
			if got := reads.Load(); got != want || time.Since(start) > 0 {
				t.Errorf("%d reads, want %d, after %v", got, want, time.Since(start))
			}
		}
		ask(1)
		time.Sleep(3 * time.Second)
		ask(1)
		time.Sleep(countRests * 2 * time.Second)
		ask(1)
		time.Sleep(listFresh)
		ask(2)
		time.Sleep(3 * time.Second)
	})
}
