package maintenance

import (
	"context"
	"sync"

	"holdfast/internal/buckets"
)

const (
	framingQueue = 256    // bodies that wait
	framingTried = 10_000 // bodies remembered
)

// framing queues bodies without frames that reads found.
type framing struct {
	mu    sync.Mutex
	queue chan buckets.Reference        // nil in commands, which leave this to servers
	tried map[buckets.ObjectID]struct{} // bodies already tried; each is tried once
}

// begin turns the queue on.
func (f *framing) begin() <-chan buckets.Reference {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.tried = make(chan buckets.Reference, framingQueue), map[buckets.ObjectID]struct{}{}
	return f.queue
}

// add queues a body. If the queue is full, the next read tries again.
func (f *framing) add(ref buckets.Reference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, again := f.tried[ref.ID]; again || f.queue == nil || ref.Garbage || ref.Owner == "" {
		return
	}
	select {
	case f.queue <- ref:
		if len(f.tried) == framingTried {
			clear(f.tried)
		}
		f.tried[ref.ID] = struct{}{}
	default:
	}
}

// addFrames adds frames to queued bodies until ctx ends.
func (s *Service) addFrames(ctx context.Context, queue <-chan buckets.Reference) {
	for {
		select {
		case <-ctx.Done():
			return
		case ref := <-queue:
			err := AddFrames(ctx, s.o.Store, s.o.Cluster, ref, nil)
			if err != nil && ctx.Err() == nil {
				s.o.Log.Warn("checksums could not be added to a body from an earlier release", "body", ref.ID, "error", err)
			}
		}
	}
}
