package outbox

import (
	"context"
	"time"

	"holdfast/internal/clock"
)

// Look wakes the relay of the process at an interval if events wait, until ctx ends. They
// may come from a process without a relay, such as a command that queues events again, or
// from one that was killed. Unlike the poll of the relay it only reads.
func Look(ctx context.Context, box Box, w *Waker, every time.Duration) {
	for clock.Sleep(ctx, every) {
		events, _, err := box.Next(ctx, Query{Parts: allParts, Limit: Partitions, Now: time.Now()})
		if err != nil {
			continue // the relay reports it
		}
		for _, e := range events {
			w.Wake(e.Owner, e.Stream)
		}
	}
}
