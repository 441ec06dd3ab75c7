package main

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// step is a caller's i-th operation.
type step func(ctx context.Context, caller, i int) error

// while reports whether a caller sends its i-th operation, after this time.
type while func(i int, elapsed time.Duration) bool

// lasting lets callers begin operations until the window is over.
func lasting(window time.Duration) while {
	return func(_ int, elapsed time.Duration) bool { return elapsed < window }
}

// times lets each caller do n operations.
func times(n int) while { return func(i int, _ time.Duration) bool { return i < n } }

// phase adds up windows: how long each operation took, and the CPU time of the server and of its engine.
type phase struct {
	took             []time.Duration
	all, cpu, engine time.Duration
}

func (p *phase) add(q phase) {
	p.took = append(p.took, q.took...)
	p.all += q.all
	p.cpu += q.cpu
	p.engine += q.engine
}

// drive repeats step on all callers in parallel until more ends each of them.
func drive(ctx context.Context, callers int, more while, step step) (p phase, err error) {
	took := make([][]time.Duration, callers)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for c := range callers {
		g.Go(func() error {
			for i, at := 0, start; more(i, at.Sub(start)); i++ {
				if err := errors.Join(ctx.Err(), step(ctx, c, i)); err != nil {
					return err
				}
				now := time.Now()
				took[c] = append(took[c], now.Sub(at))
				at = now
			}
			return nil
		})
	}
	err = g.Wait()
	return phase{took: slices.Concat(took...), all: time.Since(start)}, err
}

// rounds runs as many rounds as fit into a window. If fixed is more than 0, a round is this number of operations on each
// caller, whose data run prepares; otherwise there is a single round.
func rounds(more while, fixed int, run func(while) (phase, error)) (p phase, err error) {
	if fixed == 0 {
		return run(more)
	}
	for i := 0; i == 0 || more(i, p.all); i++ {
		q, err := run(times(fixed))
		if err != nil {
			return p, err
		}
		p.add(q)
	}
	return p, nil
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// sample is a window's result.
type sample struct {
	ops         float64
	p50, p99    time.Duration
	cpu, engine time.Duration // server and engine time per operation
	peak        int64         // the server's largest resident memory, in bytes
}

// sample sorts took, which must not be empty.
func (p *phase) sample() sample {
	slices.Sort(p.took)
	n := len(p.took)
	return sample{
		ops: perSecond(n, p.all), p50: p.took[n/2], p99: p.took[n*99/100],
		cpu: p.cpu / time.Duration(n), engine: p.engine / time.Duration(n),
	}
}

// medians returns the median of each field, but the greatest peak.
func medians(all []sample) (m sample) {
	for _, s := range all {
		m.peak = max(m.peak, s.peak)
	}
	d := func(field func(sample) time.Duration) time.Duration { return median(each(all, field)) }
	m.ops = median(each(all, func(s sample) float64 { return s.ops }))
	m.p50, m.p99 = d(func(s sample) time.Duration { return s.p50 }), d(func(s sample) time.Duration { return s.p99 })
	m.cpu, m.engine = d(func(s sample) time.Duration { return s.cpu }), d(func(s sample) time.Duration { return s.engine })
	return m
}

// each returns a field of all elements.
func each[S, T any](all []S, field func(S) T) (fields []T) {
	for _, s := range all {
		fields = append(fields, field(s))
	}
	return fields
}

// median returns the mean of the two middle values of an even number.
func median[T float64 | time.Duration | int64](all []T) T {
	all = slices.Sorted(slices.Values(all))
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// alternate measures a window of each side in turn, and returns each side's medians. The sides take turns in going
// first, and no side writes the other's dirty pages.
func alternate(runs int, sides ...func() (sample, error)) ([]sample, error) {
	all := make([][]sample, len(sides))
	for run := range runs {
		for i := range sides {
			side := (run + i) % len(sides)
			syscall.Sync()
			got, err := sides[side]()
			if err != nil {
				return nil, err
			}
			all[side] = append(all[side], got)
		}
	}
	return each(all, medians), nil
}
