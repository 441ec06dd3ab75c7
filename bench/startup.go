package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// What the goals ask of a process with nothing to do.
const (
	readyGoal = 300 * time.Millisecond
	idleGoal  = 60 << 20
)

func startHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Medians of %d starts.\n\n| engine | ready, median | ready, slowest | goal | memory when idle | goal |\n|---|--:|--:|--:|--:|--:|\n", o.size.starts)
}

// measureStart starts a server with every service on, again and again, on the data
// of the first start, which is not counted: it makes the tables.
func measureStart(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		var (
			ready   []time.Duration
			memory  []int64
			slowest time.Duration
		)
		for range o.size.starts {
			s.stop()
			begun := time.Now()
			if err := s.start(ctx); err != nil {
				return err
			}
			d := time.Since(begun)
			ready, slowest = append(ready, d), max(slowest, d)
			time.Sleep(o.size.idle)
			m, err := resident(s.pid())
			if err != nil {
				return err
			}
			memory = append(memory, m)
		}
		d, m := median(ready, func(d time.Duration) time.Duration { return d }), median(memory, func(m int64) int64 { return m })
		fmt.Fprintf(out, "| %s | %s | %s | %s%s | %s | %s%s |\n", e.name, ms(d), ms(slowest),
			missed(d > readyGoal), ms(readyGoal), mb(m), missed(m > idleGoal), mb(idleGoal))
		return nil
	})
}

func missed(so bool) string {
	if so {
		return "**missed** "
	}
	return ""
}
