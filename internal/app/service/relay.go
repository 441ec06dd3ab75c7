package service

import (
	"context"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// Relay publishes a service's events in the background.
type Relay struct {
	Service string
	Options outbox.Options              // without Clock, Log and observers
	Ping    func(context.Context) error // returns an error until the database is reachable and migrated
	Close   func() error                // closes the sink
}

// Start starts the relay when the database is reachable and migrated. end publishes the remaining events, with a
// timeout.
func (r Relay) Start(ctx context.Context, d *Deps) (end func() error) {
	m := d.Metrics.Outbox(r.Service)
	o := r.Options
	o.Clock, o.Log = d.Clock, d.Log
	o.Observe, o.ObserveDead = m.Pass, m.Dead
	if _, ok := o.Box.(outbox.Counted); ok {
		o.ObserveBacklog = func(n int, oldest time.Time) {
			age := time.Duration(0)
			if !oldest.IsZero() {
				age = d.Clock().Sub(oldest)
			}
			m.Backlog(n, age)
		}
	}
	relay := outbox.NewRelay(o)
	ctx = context.WithoutCancel(ctx)
	running, stop := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	ready := false
	relaying.Go(func() {
		if ready = r.await(running); ready {
			relay.Run(running)
		}
	})
	return func() error {
		stop()
		if relaying.Wait(); ready {
			last, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if _, err := relay.Pass(last); err != nil {
				d.Log.Warn("could not publish the remaining events, they will be published at the next start", "service", r.Service, "error", err)
			}
		}
		if r.Close != nil {
			return r.Close()
		}
		return nil
	}
}

// await waits until Ping succeeds.
func (r Relay) await(ctx context.Context) bool {
	for r.Ping(ctx) != nil {
		if !clock.Sleep(ctx, time.Second) {
			return false
		}
	}
	return true
}
