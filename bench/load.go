package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

func loadHead(o *options, out io.Writer) { (&table{out: out}).head(o) }

// measureLoad fills the table's rows of one engine.
func measureLoad(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		users, err := s.newUsers(slices.Max(o.connections))
		if err != nil {
			return err
		}
		for _, u := range users {
			if err := fillUser(ctx, u); err != nil {
				return fmt.Errorf("fill the server: %w", err)
			}
		}
		l, err := openLimit(ctx, e, len(users), o.size.batch)
		if err != nil {
			return err
		}
		return errors.Join(measureWorks(ctx, o, s, l, users, &table{out: out}), l.close())
	})
}

// fillUser makes the records that the works read and write.
func fillUser(ctx context.Context, u credentials) error {
	c, err := dial(ctx, u)
	if err != nil {
		return err
	}
	defer c.hangUp()
	for collection, n := range map[string]int{putCollection: putRecords, postCollection: postRecords, listCollection: listRecords} {
		for _, body := range posts(n, 500) {
			if _, err := c.send(ctx, http.MethodPost, "/storage/"+collection, body, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureWorks(ctx context.Context, o *options, s *server, l limit, users []credentials, t *table) error {
	for _, w := range works() {
		for _, n := range o.connections {
			if n < w.least || w.most > 0 && n > w.most {
				continue
			}
			if err := measureWork(ctx, o, s, l, &w, users[:n], t); err != nil {
				return fmt.Errorf("%s at %d: %w", w.name, n, err)
			}
		}
	}
	for _, n := range o.connections {
		if n > o.size.batchCallers {
			break
		}
		if err := measureBatch(ctx, o, s, l, n, t); err != nil {
			return fmt.Errorf("batches at %d: %w", n, err)
		}
	}
	return nil
}

// measureWork fills one row. Every connection has a user of its own, as devices
// do: writes of one user wait for each other by the protocol.
func measureWork(ctx context.Context, o *options, s *server, l limit, w *work, users []credentials, t *table) error {
	r := row{work: w.name, engine: s.engine.name, connections: len(users), goal: w.goals[s.engine.name]}
	if err := resetPeak(s.pid()); err != nil {
		return err
	}
	load := func(more more) (phase, error) {
		all, hangUp, err := dialAll(ctx, users)
		if err != nil {
			return phase{}, err
		}
		defer hangUp()
		return s.measured(ctx, len(users), more, func(ctx context.Context, c, i int) error {
			_, err := all[c].send(ctx, w.method, w.path(i), w.body, w.records)
			return err
		})
	}
	for range o.runs {
		got, err := load(lasting(o.window))
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		r.server = append(r.server, got.sample())
		bare, err := l.window(ctx, w.name, len(users), o.window)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		r.limit = append(r.limit, bare)
	}
	var err error
	if r.peak, err = peak(s.pid()); err != nil {
		return err
	}
	t.row(&r)
	if !r.missed() {
		return nil
	}
	return s.profile(ctx, o, r.title(), func(more more) error {
		_, err := load(more)
		return err
	})
}
