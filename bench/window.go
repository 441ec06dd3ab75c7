package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

type step func(ctx context.Context, caller, i int) error

type more func(i int, elapsed time.Duration) bool

func lasting(window time.Duration) more {
	return func(_ int, elapsed time.Duration) bool { return elapsed < window }
}

func times(n int) more { return func(i int, _ time.Duration) bool { return i < n } }

func drive(ctx context.Context, callers int, more more, step step) (took []time.Duration, all time.Duration, err error) {
	each := make([][]time.Duration, callers)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for c := range callers {
		g.Go(func() error {
			for i, at := 0, start; more(i, at.Sub(start)); i++ {
				if err := errors.Join(ctx.Err(), step(ctx, c, i)); err != nil {
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

func rate(ctx context.Context, callers int, more more, step step) (float64, error) {
	took, all, err := drive(ctx, callers, more, step)
	return perSecond(len(took), all), err
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

type sample struct {
	ops         float64
	p50, p99    time.Duration
	cpu, engine time.Duration // server and engine time per operation
}

func (p *phase) sample() sample {
	slices.Sort(p.took)
	n := len(p.took)
	return sample{
		ops: perSecond(n, p.all), p50: p.took[n/2], p99: p.took[n*99/100],
		cpu: p.serverCPU / time.Duration(n), engine: p.engines / time.Duration(n),
	}
}

func (p *phase) add(q phase) {
	p.took = append(p.took, q.took...)
	p.all += q.all
	p.serverCPU += q.serverCPU
	p.engines += q.engines
}

func median[S any, T float64 | time.Duration | int64](samples []S, field func(S) T) T {
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
