package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// side is one of two binaries that are compared, with an engine of its own.
type side struct {
	binary  string
	engine  *engine
	server  *server
	owners  []credentials
	samples []sample
	peak    int64
}

// compare measures two binaries in alternating windows, so that both meet the
// same machine, and prints the ratios of their medians.
func compare(ctx context.Context, o *options, out io.Writer) error {
	fmt.Fprintf(out, "Windows of %v, medians of %d; each ratio is %s to %s.\n\n", o.window, o.runs, o.binary, o.against)
	fmt.Fprintln(out, "| work | engine | connections | ops/s | before | ratio | server CPU µs/op | before | ratio | engine CPU µs/op | before | ratio | peak memory | before |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, name := range o.engines {
		if name == "spanner" {
			fmt.Fprintln(os.Stderr, "bench: spanner: left out: the emulator's time would be compared")
			continue
		}
		for i := range o.services {
			b := &o.services[i]
			if !slices.Contains(o.parts, b.part) {
				continue
			}
			if err := b.compare(ctx, o, name, out); err != nil {
				return fmt.Errorf("%s: %s: %w", b.part, name, err)
			}
		}
	}
	return nil
}

func (b *entry) compare(ctx context.Context, o *options, engine string, out io.Writer) error {
	operations := slices.DeleteFunc(b.operations(), func(op operation) bool { return !o.works.MatchString(op.name) })
	if len(operations) == 0 {
		return nil
	}
	sides := []*side{{binary: o.binary}, {binary: o.against}}
	return onSides(ctx, o, engine, sides, func() (err error) {
		for _, s := range sides {
			if s.owners, err = s.server.newOwners(b, slices.Max(o.connections)); err == nil {
				err = b.fill(ctx, s.engine, s.owners)
			}
			if err != nil {
				return fmt.Errorf("fill %s: %w", s.binary, err)
			}
		}
		for _, op := range operations {
			for _, n := range o.connections {
				if err := op.compare(ctx, o, n, sides, out); err != nil {
					return fmt.Errorf("%s at %d: %w", op.name, n, err)
				}
			}
		}
		return nil
	})
}

// onSides runs fn while every side has its server.
func onSides(ctx context.Context, o *options, name string, sides []*side, fn func() error) error {
	if len(sides) == 0 {
		return fn()
	}
	s := sides[0]
	own := *o
	own.binary = s.binary
	return onEngine(name, func(e *engine) error {
		s.engine = e
		return onServer(ctx, &own, e, nil, func(running *server) error {
			s.server = running
			if len(sides) == 1 {
				return fn()
			}
			return onSides(ctx, o, name, sides[1:], fn)
		})
	})
}

// compare measures a row. Which side begins changes from pair to pair; the
// first window of each warms up and does not count.
func (op *operation) compare(ctx context.Context, o *options, n int, sides []*side, out io.Writer) error {
	for _, s := range sides {
		s.samples, s.peak = nil, 0
		if err := resetPeak(s.server.pid()); err != nil {
			return err
		}
		if _, err := op.load(ctx, s.server, s.owners[:n], lasting(o.window/2)); err != nil {
			return fmt.Errorf("%s: %w", s.binary, err)
		}
	}
	order := slices.Clone(sides)
	for range o.runs {
		for _, s := range order {
			got, err := op.load(ctx, s.server, s.owners[:n], lasting(o.window))
			if err != nil {
				return fmt.Errorf("%s: %w", s.binary, err)
			}
			s.samples = append(s.samples, got.sample())
		}
		slices.Reverse(order)
	}
	for _, s := range sides {
		var err error
		if s.peak, err = peak(s.server.pid()); err != nil {
			return err
		}
	}
	a, b := sides[0], sides[1]
	fmt.Fprintf(out, "| %s | %s | %d | %s | %s | %s | %s |\n", op.name, a.engine.name, n,
		beside(a, b, func(s sample) float64 { return s.ops }),
		beside(a, b, func(s sample) float64 { return micros(s.cpu) }),
		beside(a, b, func(s sample) float64 { return micros(s.engine) }),
		mb(a.peak)+" | "+mb(b.peak))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// beside is three cells: the medians of both sides and their ratio.
func beside(a, b *side, field func(sample) float64) string {
	x, y := median(a.samples, field), median(b.samples, field)
	if y == 0 {
		return "– | – | –"
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', digits(f), 64) }
	return fmt.Sprintf("%s | %s | **%.2f**", number(x), number(y), x/y)
}
