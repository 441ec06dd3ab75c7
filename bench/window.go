package main

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is what one window found.
type sample struct {
	ops      float64 // per second
	p50, p99 time.Duration
	cpu      time.Duration // of the server, per operation
}

// drive lets callers repeat a step, each for itself, until the window is over.
// i counts the steps of one caller.
func drive(ctx context.Context, callers int, window time.Duration, step func(ctx context.Context, caller, i int) error) (took []time.Duration, elapsed time.Duration, err error) {
	each := make([][]time.Duration, callers)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for c := range callers {
		g.Go(func() error {
			for i, at := 0, start; at.Sub(start) < window; i++ {
				if err := step(ctx, c, i); err != nil {
					return err
				}
				now := time.Now()
				each[c] = append(each[c], now.Sub(at))
				at = now
			}
			return nil
		})
	}
	err = g.Wait()
	return slices.Concat(each...), time.Since(start), err
}

// rate is drive for a limit, of which only the throughput is wanted.
func rate(ctx context.Context, callers int, window time.Duration, step func(ctx context.Context, caller, i int) error) (float64, error) {
	took, elapsed, err := drive(ctx, callers, window, step)
	return float64(len(took)) / elapsed.Seconds(), err
}

// summary makes a sample of what operations took and what the server worked
// for all of them.
func summary(took []time.Duration, elapsed, cpu time.Duration) sample {
	slices.Sort(took)
	n := len(took)
	return sample{
		ops: float64(n) / elapsed.Seconds(), p50: took[n/2], p99: took[n*99/100],
		cpu: cpu / time.Duration(n),
	}
}

// median is that of what one field of the samples holds.
func median[S any, T float64 | time.Duration](samples []S, field func(S) T) T {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = field(s)
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}
