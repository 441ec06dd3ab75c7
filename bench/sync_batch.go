package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"holdfast/internal/workload/sync"
)

func (w *syncLoad) measureBatches(ctx context.Context, o *options, e *engine, at place, t *table) error {
	if !o.works.MatchString(workAppend) && !o.works.MatchString(workCommit) {
		return nil
	}
	for _, n := range e.connections(o.connections) {
		if n > o.size.batchCallers || e.spanner != nil && n > 1 {
			break
		}
		if err := w.measureBatch(ctx, o, e, at, n, t); err != nil {
			return fmt.Errorf("batches at %d: %w", n, err)
		}
	}
	return nil
}

// measureBatch measures appends and commits separately: each caller uploads a batch for a new user, and then all
// callers commit, so there are as many open batches as callers. Each phase starts after a checkpoint. Otherwise SQLite
// would run a checkpoint in the commit that makes the log long enough, possibly the same commit in every round.
func (w *syncLoad) measureBatch(ctx context.Context, o *options, e *engine, at place, callers int, t *table) error {
	n, want := o.size.records(e), goal{ratio: commitGoal}
	appends := row{work: workAppend, engine: e.name, connections: callers}
	if e.spanner != nil {
		want.ratio, appends.goal.ratio = spannerGoal, spannerGoal
	}
	commits := row{work: fmt.Sprintf(workCommit, thousands(n)), engine: e.name, connections: callers, goal: want}
	bodies := posts(n, 500)
	user := int64(1_000_000 * callers)
	for range o.runs {
		err := at(func(s *server, l limit, _ []credentials) error {
			b, ok := l.(batchLimit)
			if !ok {
				return unknown(workCommit)
			}
			if err := resetPeak(s.pid()); err != nil {
				return err
			}
			served, bare, err := w.rounds(ctx, o, s, b, callers, bodies, &user)
			if err != nil {
				return err
			}
			appends.server, commits.server = append(appends.server, served.appends.sample()), append(commits.server, served.commits.sample())
			appends.limit = append(appends.limit, bare.appends.sample().ops)
			commits.limit = append(commits.limit, bare.commits.sample().ops)
			most, err := peak(s.pid())
			appends.peak = max(appends.peak, most)
			commits.peak = appends.peak
			return err
		})
		if err != nil {
			return err
		}
	}
	t.row(&appends)
	t.row(&commits)
	if !commits.missed() || o.profiles == "" {
		return nil
	}
	return at(func(s *server, _ limit, _ []credentials) error {
		return s.profile(ctx, o, commits.title(), func(more more) error {
			for i, begun := 0, time.Now(); more(i, time.Since(begun)); i++ {
				if err := w.batches(ctx, s, callers, bodies, &phases{}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (w *syncLoad) rounds(ctx context.Context, o *options, s *server, b batchLimit, callers int, bodies [][]byte, user *int64) (served, bare phases, err error) {
	rounds := 0
	for begun := time.Now(); time.Since(begun) < o.window; rounds++ {
		if err := w.batches(ctx, s, callers, bodies, &served); err != nil {
			return served, bare, fmt.Errorf("batch, server: %w", err)
		}
	}
	for range rounds {
		if err := bareBatches(ctx, b, callers, len(bodies), *user, &bare); err != nil {
			return served, bare, fmt.Errorf("batch, limit: %w", err)
		}
		*user += int64(callers)
	}
	return served, bare, nil
}

type phases struct{ appends, commits phase }

func (w *syncLoad) batches(ctx context.Context, s *server, callers int, bodies [][]byte, p *phases) error {
	users, err := s.newOwners(w, callers)
	if err != nil {
		return err
	}
	all, hangUp, err := dialAll(ctx, users)
	if err != nil {
		return err
	}
	defer hangUp()
	open := make([]string, callers)
	if err := s.engine.settle(ctx, syncFile(s.data())); err != nil {
		return err
	}
	appends, err := s.measured(ctx, callers, times(len(bodies)), func(ctx context.Context, c, i int) error {
		return all[c].stage(ctx, &open[c], bodies[i])
	}, nil)
	if err != nil {
		return err
	}
	if err := s.engine.settle(ctx, syncFile(s.data())); err != nil {
		return err
	}
	commits, err := s.measured(ctx, callers, times(1), func(ctx context.Context, c, _ int) error {
		return all[c].commit(ctx, open[c])
	}, nil)
	p.appends.add(appends)
	p.commits.add(commits)
	return err
}

func (c *caller) stage(ctx context.Context, open *string, body []byte) error {
	got, err := c.send(ctx, http.MethodPost, sync.Append(batchCollection, *open), body, "")
	if err == nil && *open == "" {
		*open, err = sync.Opened(got)
	}
	return err
}

func (c *caller) commit(ctx context.Context, open string) error {
	_, err := c.send(ctx, http.MethodPost, sync.Commit(batchCollection, open), []byte("[]"), "")
	return err
}

func bareBatches(ctx context.Context, l batchLimit, callers, appends int, user int64, p *phases) (err error) {
	var took phase
	if err := l.settle(ctx); err != nil {
		return err
	}
	took.took, took.all, err = drive(ctx, callers, times(appends), func(ctx context.Context, c, i int) error {
		return l.stage(ctx, user+int64(c), i)
	})
	if err != nil {
		return err
	}
	p.appends.add(took)
	if err := l.settle(ctx); err != nil {
		return err
	}
	took.took, took.all, err = drive(ctx, callers, times(1), func(ctx context.Context, c, _ int) error {
		return l.commit(ctx, user+int64(c))
	})
	p.commits.add(took)
	return err
}
