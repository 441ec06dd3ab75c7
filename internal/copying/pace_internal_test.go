package copying

import (
	"testing"
	"time"
)

// TestEstimate checks that writers are slowed only as much as necessary, and that the last pass begins in time.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		e      Estimate
		text   string
		refuse float64
		isLate bool
	}{
		{
			"nothing is left", Estimate{Copied: 100, Arriving: 200, Within: time.Hour},
			"0 changed rows left, 100/s copied, 200/s more change: 0s left", 0, false,
		},
		{
			"no limit", Estimate{Left: 514_000, Copied: 1500, Arriving: 2200},
			"514000 changed rows left, 1500/s copied, 2200/s more change: the end is not in sight", 0, false,
		},
		{
			"in sight", Estimate{Left: 10_000, Copied: 1500, Arriving: 1000, Refused: 0.25, Within: 30 * time.Second},
			"10000 changed rows left, 1500/s copied, 1000/s more change: 20s left, 25% of writes are refused", 0.25, false,
		},
		{
			"sooner than necessary", Estimate{Left: 10_000, Copied: 1500, Arriving: 1000, Refused: 0.25, Within: time.Minute},
			"10000 changed rows left, 1500/s copied, 1000/s more change: 20s left, 25% of writes are refused", 0.15, false,
		},
		{
			"half of the writes are too many", Estimate{Left: 80_000, Copied: 1500, Arriving: 2000, Within: 200 * time.Second},
			"80000 changed rows left, 1500/s copied, 2000/s more change: the end is not in sight", 0.5, false,
		},
		{
			"most of the writes are too many", Estimate{Left: 110_000, Copied: 1500, Arriving: 2000, Refused: 0.5, Within: 100 * time.Second},
			"110000 changed rows left, 1500/s copied, 2000/s more change: the end is not in sight, 50% of writes are refused", 0.75, false,
		},
		{
			"all writes are too many", Estimate{Left: 120_000, Copied: 1500, Arriving: 2000, Refused: 0.75, Within: 100 * time.Second},
			"120000 changed rows left, 1500/s copied, 2000/s more change: the end is not in sight, 75% of writes are refused", 0.75, true,
		},
		{
			"the time is over", Estimate{Left: 1, Copied: 1500, Within: 1},
			"1 changed rows left, 1500/s copied, 0/s more change: 0s left", 0.75, true,
		},
		{
			"nothing was copied", Estimate{Left: 1, Within: time.Hour},
			"1 changed rows left, 0/s copied, 0/s more change: the end is not in sight", 0.75, true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.e.String(); got != tc.text {
				t.Errorf("text %q, want %q", got, tc.text)
			}
			if got := tc.e.isLate(); got != tc.isLate {
				t.Errorf("late: %t, want %t", got, tc.isLate)
			}
			if got := tc.e.refuse(); got < tc.refuse-1e-9 || got > tc.refuse+1e-9 {
				t.Errorf("refuse %v, want %v", got, tc.refuse)
			}
		})
	}
}
