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
	// mostReports limits pending reports. Damage in dropped reports is found again.
	mostReports = 4096
	// reportEvery is how long reports are collected before they are stored. A stopping server takes at most reportTime to
	// store the last reports.
	reportEvery = time.Second
	reportTime  = 5 * time.Second
)

// reporter collects damage that reads find, so that a damaged body does not cost a write per read.
type reporter struct {
	store buckets.Damages
	log   *slog.Logger

	mu      sync.Mutex
	pending map[buckets.Copy]buckets.Damage
	wake    chan struct{}
}

// newReporter returns a reporter; run stores the reports.
func newReporter(store buckets.Damages, log *slog.Logger) *reporter {
	return &reporter{store: store, log: log, pending: map[buckets.Copy]buckets.Damage{}, wake: make(chan struct{}, 1)}
}

// note adds a report, unless too many wait. It does not block.
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

// run stores reports until ctx ends, and calls stored after each batch.
func (r *reporter) run(ctx context.Context, stored func()) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
			defer cancel()
			if err := r.flush(ending); err != nil {
				r.log.Warn("could not record damaged body copies", "error", err)
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
			r.log.Warn("could not record damaged body copies", "error", err, "retry_in", reportEvery)
			signal(r.wake)
		}
	}
}

// signal wakes a reader without blocking.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// flush keeps the reports after an error.
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
