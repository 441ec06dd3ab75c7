package buckets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// garbageLeft says why deleted objects are still on storage nodes after a sweep.
func (s *Buckets) garbageLeft(ctx context.Context, now time.Time) (string, error) {
	w, err := s.store.Waiting(ctx, buckets.At(now.Add(-s.cfg.GarbageAfter)), buckets.At(now))
	if err != nil || w.Rows == 0 {
		return "", err
	}
	held, err := s.store.Held(ctx, buckets.At(now))
	if err != nil {
		return "", err
	}
	return explainGarbage(w, held, s.cfg.GarbageAfter), nil
}

// explainGarbage says why garbage is not removed yet. held is the end of a backup's hold,
// or 0.
func explainGarbage(w buckets.Waiting, held buckets.Moment, after time.Duration) string {
	clock := func(m buckets.Moment) string { return m.Time().UTC().Format(time.RFC3339) }
	var why []string
	if w.Young > 0 {
		why = append(why, fmt.Sprintf("%d deleted less than %s ago (buckets.garbage_after), the first of them removed after %s",
			w.Young, after, clock(buckets.At(w.Next.Time().Add(after)))))
	}
	if w.Claimed > 0 {
		why = append(why, fmt.Sprintf("%d claimed until %s by another process, or by a sweep that failed", w.Claimed, clock(w.Until)))
	}
	switch due := w.Due(); {
	case due > 0 && held != 0:
		why = append(why, fmt.Sprintf("%d kept while a backup runs; the hold of one that was killed expires at %s", due, clock(held)))
	case due > 0:
		why = append(why, fmt.Sprintf("%d to be removed by the next sweep", due))
	}
	return service.Count(w.Rows, "deleted object") + ": " + strings.Join(why, "; ")
}
