package memory_test

import (
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest/hotstatetest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/suite"
)

func TestHot(t *testing.T) {
	t.Parallel()
	hotstatetest.Run(t, func(testing.TB) hotstatetest.Harness {
		c := clock.NewManual(clock.System())
		return hotstatetest.Harness{Hot: memory.New(c.Now, 64<<20), Pass: func(_ suite.TB, d time.Duration) { c.Advance(d) }, Wait: c.Advance}
	})
}
