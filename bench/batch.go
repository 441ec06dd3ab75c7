package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// phases are what the appends and the commits of some batches took.
type phases struct {
	appends, commits       []time.Duration
	appendCPU, commitCPU   time.Duration // of the server
	appendTime, commitTime time.Duration // in all
}

// measureBatch fills the rows of batches, which one client uploads one after
// the other, each for a new user.
func measureBatch(ctx context.Context, o *options, s *server, l limit, t *table) error {
	appends := row{work: workAppend, engine: l.name(), connections: 1}
	commits := row{work: workCommit, engine: l.name(), connections: 1, goal: goal{ratio: commitGoal}}
	bodies := make([][]byte, 0, batchRecords/100)
	for from := 0; from < batchRecords; from += 100 {
		bodies = append(bodies, list(from, 100))
	}
	if err := s.resetPeak(); err != nil {
		return err
	}
	user := int64(firstUser + users)
	for range o.runs {
		var served, bare phases
		for start := time.Now(); time.Since(start) < o.window; {
			if err := s.batch(ctx, bodies, &served); err != nil {
				return fmt.Errorf("batch, server: %w", err)
			}
		}
		for start := time.Now(); time.Since(start) < o.window; user++ {
			if err := bareBatch(ctx, l, user, &bare); err != nil {
				return fmt.Errorf("batch, limit: %w", err)
			}
		}
		appends.server = append(appends.server, summary(served.appends, served.appendTime, served.appendCPU))
		commits.server = append(commits.server, summary(served.commits, served.commitTime, served.commitCPU))
		appends.limit = append(appends.limit, float64(len(bare.appends))/bare.appendTime.Seconds())
		commits.limit = append(commits.limit, float64(len(bare.commits))/bare.commitTime.Seconds())
	}
	peak, err := s.peak()
	if err != nil {
		return err
	}
	appends.peak, commits.peak = peak, peak
	t.row(&appends)
	t.row(&commits)
	return s.profile(ctx, o, &commits, func() error {
		for start := time.Now(); time.Since(start) < o.window+time.Second; {
			if err := s.batch(ctx, bodies, &phases{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch uploads one batch and commits it.
func (s *server) batch(ctx context.Context, bodies [][]byte, p *phases) error {
	u, err := s.user(ctx)
	if err != nil {
		return err
	}
	c, err := dial(ctx, u)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	begun, err := s.cpu()
	if err != nil {
		return err
	}
	var answer struct {
		Batch string `json:"batch"`
	}
	path := "/storage/" + batchCollection + "?batch="
	took, all, err := each(len(bodies), func(i int) error {
		got, err := c.send(ctx, http.MethodPost, path+cmp.Or(url.QueryEscape(answer.Batch), "true"), bodies[i], "")
		if err != nil || i > 0 {
			return err
		}
		return json.Unmarshal(got, &answer)
	})
	if err != nil {
		return err
	}
	p.appends, p.appendTime = slices.Concat(p.appends, took), p.appendTime+all
	staged, err := s.cpu()
	if err != nil {
		return err
	}
	took, all, err = each(1, func(int) error {
		_, err := c.send(ctx, http.MethodPost, path+url.QueryEscape(answer.Batch)+"&commit=true", []byte("[]"), "")
		return err
	})
	if err != nil {
		return err
	}
	p.commits, p.commitTime = slices.Concat(p.commits, took), p.commitTime+all
	done, err := s.cpu()
	p.appendCPU, p.commitCPU = p.appendCPU+staged-begun, p.commitCPU+done-staged
	return err
}

// bareBatch does on the limit what batch does on the server.
func bareBatch(ctx context.Context, l limit, user int64, p *phases) error {
	if err := l.begin(ctx, user); err != nil {
		return err
	}
	took, all, err := each(batchRecords/100, func(i int) error { return l.stage(ctx, user, i*100) })
	if err != nil {
		return err
	}
	p.appends, p.appendTime = slices.Concat(p.appends, took), p.appendTime+all
	took, all, err = each(1, func(int) error { return l.commit(ctx, user) })
	p.commits, p.commitTime = slices.Concat(p.commits, took), p.commitTime+all
	return err
}

// each does a step n times, one after the other.
func each(n int, step func(i int) error) (took []time.Duration, all time.Duration, err error) {
	for i := range n {
		start := time.Now()
		if err := step(i); err != nil {
			return nil, 0, err
		}
		d := time.Since(start)
		took, all = append(took, d), all+d
	}
	return took, all, nil
}
