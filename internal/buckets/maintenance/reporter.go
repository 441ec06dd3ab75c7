package maintenance

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

const (
	// mostReports is how many damaged copies wait until they are stored. More are dropped:
	// the next read, or the scrubber, finds them again.
	mostReports = 4096
	// reportEvery is how long reports are collected before they are stored, and reportTime
	// how long a server that stops takes to store the last ones.
	reportEvery = time.Second
	reportTime  = 5 * time.Second
)

// reporter stores which copies are damaged, without delaying the reads that find them.
type reporter struct {
	store buckets.Damages
	log   *slog.Logger

	mu      sync.Mutex
	pending map[buckets.Copy]buckets.Damage
	wake    chan struct{} // has a value if something is pending
}

func newReporter(store buckets.Damages, log *slog.Logger) *reporter {
	return &reporter{store: store, log: log, pending: map[buckets.Copy]buckets.Damage{}, wake: make(chan struct{}, 1)}
}

// note adds a report. It never blocks.
func (r *reporter) note(d buckets.Damage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.pending[d.Copy]
	switch {
	case known:
		d.FirstSeen = was.FirstSeen
	case len(r.pending) >= mostReports:
		return
	}
	r.pending[d.Copy] = d
	signal(r.wake)
}

// run stores reports until ctx ends, and then the last ones. stored is called after each
// time.
func (r *reporter) run(ctx context.Context, stored func()) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
			defer cancel()
			if err := r.flush(ending); err != nil {
				r.log.Warn("could not store which copies of bodies are damaged", "error", err)
			}
			return
		}
		if !clock.Sleep(ctx, reportEvery) {
			continue
		}
		err := r.flush(ctx)
		switch {
		case err == nil:
			stored()
		case ctx.Err() == nil:
			r.log.Warn("could not store which copies of bodies are damaged", "error", err, "retry_in", reportEvery)
			signal(r.wake) // try again
		}
	}
}

// signal wakes the receiver of a channel with room for one value, now or when it receives next.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// flush stores what is pending. After an error it is pending still.
func (r *reporter) flush(ctx context.Context) error {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.pending))
	r.pending = map[buckets.Copy]buckets.Damage{}
	r.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	err := r.store.Mark(ctx, all)
	if err != nil {
		for _, d := range all {
			r.note(d)
		}
	}
	return err
}
