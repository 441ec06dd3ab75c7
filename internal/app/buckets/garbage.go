package buckets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// garbageLeft explains, after a manual sweep, why garbage remains; "" if none does.
func (s *Buckets) garbageLeft(ctx context.Context, now time.Time) (string, error) {
	w, err := s.opened.Waiting(ctx, now.Add(-s.live.Load().GarbageAfter), now)
	if err != nil || w.Rows == 0 {
		return "", err
	}
	return explainGarbage(w, s.live.Load().GarbageAfter), nil
}

// explainGarbage names each reason with its number and the time when it ends. after is buckets.garbage_after.
func explainGarbage(w buckets.Waiting, after time.Duration) string {
	clock := func(m buckets.Moment) string { return m.Time().UTC().Format(time.RFC3339) }
	var why []string
	if w.Young > 0 {
		why = append(why, fmt.Sprintf("%d deleted less than %s ago (buckets.garbage_after), the first due %s",
			w.Young, after, clock(buckets.At(w.Next.Time().Add(after)))))
	}
	if w.Claimed > 0 {
		why = append(why, fmt.Sprintf("%d claimed until %s by another process, or by a sweep that failed", w.Claimed, clock(w.Until)))
	}
	switch due := w.Due(); {
	case due > 0 && w.Held != 0:
		why = append(why, fmt.Sprintf("%d kept for a running backup; the hold expires at %s if the backup was killed", due, clock(w.Held)))
	case due > 0:
		why = append(why, fmt.Sprintf("%d to be removed by the next sweep", due))
	}
	return service.Count(w.Rows, "deleted object") + ": " + strings.Join(why, "; ")
}
