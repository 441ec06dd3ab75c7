package maintenance_test

import (
	"context"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

type stopping struct {
	buckets.Bodies
	stop    context.CancelFunc
	removed int
}

func (s *stopping) Remove(ctx context.Context, path string, sharks []string) error {
	if s.removed++; s.removed == 2 {
		s.stop()
		return ctx.Err()
	}
	return s.Bodies.Remove(ctx, path, sharks)
}

// TestCollectReleasesItsClaim checks that a stopped worker removes the rows of removed bodies and releases the others.
func TestCollectReleasesItsClaim(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		for _, name := range []string{"a", "b", "c"} {
			s.put(name, large('a'))
			_, err := s.store.Delete(t.Context(), s.owner, s.bucket, buckets.Delete{Name: name, Now: buckets.At(time.Now())})
			s.must(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := buckets.NewService(buckets.Options{Backend: s.store, Bodies: &stopping{Bodies: s.cluster, stop: stop}, Clock: clock.System})
		if n, err := stopped.Collect(ctx, time.Now(), 100); n != 1 || err == nil {
			t.Errorf("the stopped worker has removed %d, %v", n, err)
		}
		w, err := s.store.Waiting(t.Context(), buckets.At(time.Now()), buckets.At(time.Now()))
		s.must(err)
		if w != (buckets.Waiting{Rows: 2}) {
			t.Errorf("what is left is %+v", w)
		}
		if n, err := s.service.Collect(t.Context(), time.Now(), 100); n != 2 || err != nil {
			t.Errorf("the next worker has removed %d, %v", n, err)
		}
		s.wantFiles()
	})
}
