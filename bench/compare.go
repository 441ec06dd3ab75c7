package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

type side struct {
	service

	name    string
	engine  *engine
	server  *server
	owners  []credentials
	samples []sample
	peak    int64
}

func (s *side) operation(name string) *operation {
	all := s.operations()
	if i := slices.IndexFunc(all, func(op operation) bool { return op.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

const compareHead = "| work | engine | connections | ops/s | %s | ratio | p50 | %[1]s | p99 | %[1]s | server CPU µs/op | %[1]s | ratio | engine CPU µs/op | %[1]s | ratio | peak memory | %[1]s |\n" +
	"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

func compare(ctx context.Context, o *options, out io.Writer) error {
	fmt.Fprintf(out, "%v windows, median of %d; each ratio is %s to %s.\n\n", o.window, o.runs, o.binary, o.against)
	fmt.Fprintf(out, compareHead, "before")
	for _, name := range o.engines {
		if name == "spanner" {
			fmt.Fprintln(os.Stderr, "bench: spanner: skipped: the emulator says nothing about the speed of Spanner")
			continue
		}
		for i := range o.services {
			b := &o.services[i]
			if !slices.Contains(o.parts, b.part) {
				continue
			}
			sides := []*side{{name: o.binary, service: b}, {name: o.against, service: b}}
			err := onBinaries(ctx, o, name, sides, func() error { return compareSides(ctx, o, sides, out) })
			if err != nil {
				return fmt.Errorf("%s: %s: %w", b.part, name, err)
			}
		}
	}
	return nil
}

func compareSides(ctx context.Context, o *options, sides []*side, out io.Writer) error {
	operations := slices.DeleteFunc(sides[0].operations(), func(op operation) bool {
		return !o.works.MatchString(op.name) || sides[1].operation(op.name) == nil
	})
	if len(operations) == 0 {
		return nil
	}
	for _, s := range sides {
		var err error
		if s.owners, err = s.server.filled(ctx, s, slices.Max(o.connections)); err != nil {
			return fmt.Errorf("fill %s: %w", s.name, err)
		}
	}
	for _, op := range operations {
		for _, n := range o.connections {
			if op.most > 0 && n > op.most {
				continue
			}
			if err := compareOperation(ctx, o, op.name, n, sides, out); err != nil {
				return fmt.Errorf("%s at %d: %w", op.name, n, err)
			}
		}
	}
	return nil
}

func onBinaries(ctx context.Context, o *options, name string, sides []*side, fn func() error) error {
	if len(sides) == 0 {
		return fn()
	}
	s := sides[0]
	own := *o
	own.binary = s.name
	return onEngine(name, func(e *engine) error {
		s.engine = e
		enable, err := enabled(s.service)
		if err != nil {
			return err
		}
		return onServer(ctx, &own, e, enable, func(running *server) error {
			s.server = running
			return onBinaries(ctx, o, name, sides[1:], fn)
		})
	})
}

// The sides take turns in going first. Each side's first window is a warm-up.
func compareOperation(ctx context.Context, o *options, work string, n int, sides []*side, out io.Writer) error {
	for _, s := range sides {
		s.samples, s.peak = nil, 0
		if err := s.server.resetPeak(); err != nil {
			return err
		}
		if _, err := s.operation(work).load(ctx, s.server, s.owners[:n], lasting(o.window/2)); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	order := slices.Clone(sides)
	for range o.runs {
		for _, s := range order {
			syscall.Sync() // so that a side does not write the other's dirty pages
			got, err := s.operation(work).load(ctx, s.server, s.owners[:n], lasting(o.window))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.samples = append(s.samples, got.sample())
		}
		slices.Reverse(order)
	}
	for _, s := range sides {
		var err error
		if s.peak, err = s.server.peak(); err != nil {
			return err
		}
	}
	a, b := sides[0], sides[1]
	fmt.Fprintf(out, "| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", work, a.engine.name, n,
		beside(a, b, func(s sample) float64 { return s.ops }),
		latencies(a, b, func(s sample) time.Duration { return s.p50 }),
		latencies(a, b, func(s sample) time.Duration { return s.p99 }),
		beside(a, b, func(s sample) float64 { return micros(s.cpu) }),
		beside(a, b, func(s sample) float64 { return micros(s.engine) }),
		a.memory()+" | "+b.memory())
	return nil
}

func (s *side) memory() string {
	if s.peak == 0 {
		return "–"
	}
	return mb(s.peak)
}

func latencies(a, b *side, field func(sample) time.Duration) string {
	return ms(median(a.samples, field)) + " | " + ms(median(b.samples, field))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func beside(a, b *side, field func(sample) float64) string {
	x, y := median(a.samples, field), median(b.samples, field)
	number := func(f float64) string {
		if f == 0 {
			return "–"
		}
		return strconv.FormatFloat(f, 'f', digits(f), 64)
	}
	if x == 0 || y == 0 {
		return number(x) + " | " + number(y) + " | –"
	}
	return fmt.Sprintf("%s | %s | **%.2f**", number(x), number(y), x/y)
}
