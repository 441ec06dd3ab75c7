package buckets

import (
	"testing"
	"time"

	"holdfast/internal/buckets"
)

func TestExplainGarbage(t *testing.T) {
	t.Parallel()
	at := func(hour int) buckets.Moment { return buckets.At(time.Date(2026, 11, 25, hour, 0, 0, 0, time.UTC)) }
	for _, tc := range []struct {
		left buckets.Waiting
		want string
	}{
		{
			buckets.Waiting{Rows: 2, Young: 2, Next: at(1), Held: at(9)},
			"2 deleted objects: 2 deleted less than 2h0m0s ago (buckets.garbage_after), the first due 2026-11-25T03:00:00Z",
		},
		{
			buckets.Waiting{Rows: 1, Claimed: 1, Until: at(4)},
			"1 deleted object: 1 claimed until 2026-11-25T04:00:00Z by another process, or by a sweep that failed",
		},
		{
			buckets.Waiting{Rows: 3, Held: at(5)},
			"3 deleted objects: 3 kept for a running backup; the hold expires at 2026-11-25T05:00:00Z if the backup was killed",
		},
		{
			buckets.Waiting{Rows: 4, Young: 1, Next: at(1), Claimed: 1, Until: at(4)},
			"4 deleted objects: 1 deleted less than 2h0m0s ago (buckets.garbage_after), the first due 2026-11-25T03:00:00Z; " +
				"1 claimed until 2026-11-25T04:00:00Z by another process, or by a sweep that failed; 2 to be removed by the next sweep",
		},
	} {
		if got := explainGarbage(tc.left, 2*time.Hour); got != tc.want {
			t.Errorf("%+v:\n%s\nwant\n%s", tc.left, got, tc.want)
		}
	}
}
