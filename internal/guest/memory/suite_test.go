package memory_test

import (
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest/hottest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/suite"
)

func TestHot(t *testing.T) {
	t.Parallel()
	hottest.Run(t, func(testing.TB) hottest.Harness {
		c := clock.NewManual(clock.System())
		return hottest.Harness{Hot: memory.New(c.Now, 64<<20), Pass: func(_ suite.TB, d time.Duration) { c.Advance(d) }, Wait: c.Advance}
	})
}
