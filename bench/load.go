package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

func loadHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Windows of %v, medians of %d.\n\n", o.window, o.runs)
	(&table{out: out}).head()
}

// place is where one window of each side is measured: it hands over a server, a
// limit, and users of the server who have what the works read and write.
type place func(fn func(s *server, l limit, users []credentials) error) error

// measureLoad fills the table's rows of one engine. All windows have the same
// server and limit; on the emulator of Spanner, which goes through all that a
// table ever had, each has new ones.
func measureLoad(ctx context.Context, o *options, e *engine, out io.Writer) error {
	connections := e.connections(o.connections)
	fresh := func(fn func(s *server, l limit, users []credentials) error) error {
		e.database = newDatabase()
		return onBoth(ctx, o, e, slices.Max(connections), fn)
	}
	t := &table{out: out}
	if e.spanner != nil {
		return measureWorks(ctx, o, e, connections, fresh, t)
	}
	return onBoth(ctx, o, e, slices.Max(connections), func(s *server, l limit, users []credentials) error {
		same := func(fn func(s *server, l limit, users []credentials) error) error { return fn(s, l, users) }
		return measureWorks(ctx, o, e, connections, same, t)
	})
}

// onBoth runs fn with a server and a limit that have as many users as named.
func onBoth(ctx context.Context, o *options, e *engine, n int, fn func(s *server, l limit, users []credentials) error) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		users, err := s.newUsers(n)
		if err != nil {
			return err
		}
		for _, u := range users {
			if err := fillUser(ctx, e, u); err != nil {
				return fmt.Errorf("fill the server: %w", err)
			}
		}
		l, err := openLimit(ctx, e, n, o.size.records(e))
		if err != nil {
			return err
		}
		return errors.Join(fn(s, l, users), l.close())
	})
}

// fillUser makes the records that the works read and write.
func fillUser(ctx context.Context, e *engine, u credentials) error {
	c, err := dial(ctx, u)
	if err != nil {
		return err
	}
	defer c.hangUp()
	for collection, n := range e.records() {
		for _, body := range posts(n, 500) {
			if _, err := c.send(ctx, http.MethodPost, "/storage/"+collection, body, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureWorks(ctx context.Context, o *options, e *engine, connections []int, at place, t *table) error {
	for _, w := range works() {
		for _, n := range connections {
			if n < w.least || w.most > 0 && n > w.most || e.spanner != nil && w.goals[e.name].ratio == 0 {
				continue
			}
			if err := measureWork(ctx, o, e, at, &w, n, t); err != nil {
				return fmt.Errorf("%s at %d: %w", w.name, n, err)
			}
		}
	}
	for _, n := range connections {
		if n > o.size.batchCallers || e.spanner != nil && n > 1 {
			break
		}
		if err := measureBatch(ctx, o, e, at, n, t); err != nil {
			return fmt.Errorf("batches at %d: %w", n, err)
		}
	}
	return nil
}

// measureWork fills one row. Every connection has a user of its own, as devices
// do: writes of one user wait for each other by the protocol.
func measureWork(ctx context.Context, o *options, e *engine, at place, w *work, n int, t *table) error {
	r := row{work: w.name, engine: e.name, connections: n, goal: w.goals[e.name]}
	load := func(s *server, users []credentials, more more) (phase, error) {
		all, hangUp, err := dialAll(ctx, users[:n])
		if err != nil {
			return phase{}, err
		}
		defer hangUp()
		return s.measured(ctx, n, more, func(ctx context.Context, c, i int) error {
			_, err := all[c].send(ctx, w.method, w.path(i), w.body, w.records)
			return err
		})
	}
	for range o.runs {
		err := at(func(s *server, l limit, users []credentials) error {
			if err := resetPeak(s.pid()); err != nil {
				return err
			}
			got, err := load(s, users, lasting(o.window))
			if err != nil {
				return fmt.Errorf("server: %w", err)
			}
			bare, err := l.window(ctx, w.name, n, o.window)
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
	if !r.missed() || o.profiles == "" {
		return nil
	}
	return at(func(s *server, _ limit, users []credentials) error {
		return s.profile(ctx, o, r.title(), func(more more) error {
			_, err := load(s, users, more)
			return err
		})
	})
}
