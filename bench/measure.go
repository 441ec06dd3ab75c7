package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// brief returns a short window and few runs, for the many operations without a goal.
func (o *options) brief() (window time.Duration, runs int) { return o.window / 5, min(o.runs, 3) }

func measureHead(o *options, out io.Writer) {
	window, runs := o.brief()
	fmt.Fprintf(out, "%v windows, median of %d; operations without a goal: %v, %d.\n\n", o.window, o.runs, window, runs)
	(&table{out: out}).head()
}

type place func(fn func(s *server, l limit, owners []credentials) error) error

// measure uses the same server and limit for all windows. On the Spanner emulator each window has new rows, because
// the emulator scans all rows that a table ever had.
func (b *entry) measure(ctx context.Context, o *options, e *engine, out io.Writer) error {
	connections := e.connections(o.connections)
	t := &table{out: out}
	if e.spanner != nil {
		return b.measureAt(ctx, o, e, func(fn func(*server, limit, []credentials) error) error {
			e.database = newDatabase()
			return b.onBoth(ctx, o, e, slices.Max(connections), fn)
		}, t)
	}
	return b.onBoth(ctx, o, e, slices.Max(connections), func(s *server, l limit, owners []credentials) error {
		return b.measureAt(ctx, o, e, func(fn func(*server, limit, []credentials) error) error { return fn(s, l, owners) }, t)
	})
}

func (b *entry) onBoth(ctx context.Context, o *options, e *engine, n int, fn func(*server, limit, []credentials) error) error {
	return onFilled(ctx, o, e, b, n, func(s *server, owners []credentials) error {
		l, err := b.limit(ctx, o, e, n)
		if err != nil {
			return fmt.Errorf("fill the limit: %w", err)
		}
		return errors.Join(fn(s, l, owners), l.close())
	})
}

func (b *entry) measureAt(ctx context.Context, o *options, e *engine, at place, t *table) error {
	for _, op := range b.operations() {
		for _, n := range e.connections(o.connections) {
			if !o.works.MatchString(op.name) || !op.measuredAt(e, n) {
				continue
			}
			if err := op.measure(ctx, o, e, at, n, t); err != nil {
				return fmt.Errorf("%s at %d: %w", op.name, n, err)
			}
		}
	}
	if b.also == nil {
		return nil
	}
	return b.also(ctx, o, e, at, t)
}

// Every connection uses its own owner, like a device, because an owner's writes wait for each other.
func (op *operation) measure(ctx context.Context, o *options, e *engine, at place, n int, t *table) error {
	r := row{work: op.name, engine: e.name, connections: n, goal: op.goals[e.name]}
	window, runs := o.window, o.runs
	if r.goal.ratio == 0 {
		window, runs = o.brief()
	}
	for range runs {
		err := at(func(s *server, l limit, owners []credentials) error {
			if err := resetPeak(s.pid()); err != nil {
				return err
			}
			got, err := op.load(ctx, s, owners[:n], lasting(window))
			if err != nil {
				return fmt.Errorf("server: %w", err)
			}
			bare, err := l.window(ctx, op.name, n, window)
			if err != nil {
				return fmt.Errorf("limit: %w", err)
			}
			most, err := peak(s.pid())
			r.server, r.limit, r.peak = append(r.server, got.sample()), append(r.limit, bare), max(r.peak, most)
			return err
		})
		if err != nil {
			return err
		}
	}
	t.row(&r)
	if o.profiles == "" || r.goal.ratio > 0 && !r.missed() {
		return nil
	}
	return at(func(s *server, _ limit, owners []credentials) error {
		return s.profile(ctx, o, r.title(), func(more more) error {
			_, err := op.load(ctx, s, owners[:n], more)
			return err
		})
	})
}
