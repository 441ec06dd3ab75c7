package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	readyGoal = 300 * time.Millisecond
	idleGoal  = 60 << 20
)

func startHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Median of %d starts.\n\n| engine | ready, median | ready, slowest | goal | memory when idle | goal |\n|---|--:|--:|--:|--:|--:|\n", o.size.starts)
}

// The first start does not count, because it creates the tables.
func measureStart(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		ready, memory, err := s.restarts(ctx, o, s.start)
		if err != nil {
			return err
		}
		d, slowest, m := medianTime(ready), slices.Max(ready), medianSize(memory)
		fmt.Fprintf(out, "| %s | %s | %s | %s%s | %s | %s%s |\n", e.name, ms(d), ms(slowest),
			missed(d > readyGoal), ms(readyGoal), mb(m), missed(m > idleGoal), mb(idleGoal))
		return nil
	})
}

func (s *server) restarts(ctx context.Context, o *options, start func(context.Context) error) (ready []time.Duration, memory []int64, err error) {
	for range o.size.starts {
		s.stop()
		begun := time.Now()
		if err := start(ctx); err != nil {
			return nil, nil, err
		}
		ready = append(ready, time.Since(begun))
		time.Sleep(o.size.idle)
		m, err := resident(s.pid())
		if err != nil {
			return nil, nil, err
		}
		memory = append(memory, m)
	}
	return ready, memory, nil
}

func medianTime(all []time.Duration) time.Duration {
	return median(all, func(d time.Duration) time.Duration { return d })
}

func medianSize(all []int64) int64 { return median(all, func(n int64) int64 { return n }) }

func missed(so bool) string {
	if so {
		return "**missed** "
	}
	return ""
}
