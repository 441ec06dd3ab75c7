package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// measureBatch fills the rows of batches. Each caller uploads a batch for a new
// user; when all have, all commit. So both are measured by themselves, with as
// many batches open as there are callers. The limit does as many rounds as the
// server did, and both begin a phase with nothing left to be written to the
// tables: SQLite does that in the commit that makes the log long enough, which
// may be the same one in every round.
func measureBatch(ctx context.Context, o *options, e *engine, at place, callers int, t *table) error {
	n, want := o.size.records(e), goal{ratio: commitGoal}
	appends := row{work: workAppend, engine: e.name, connections: callers}
	if e.spanner != nil {
		want.ratio, appends.goal.ratio = spannerGoal, spannerGoal
	}
	commits := row{work: fmt.Sprintf(workCommit, thousands(n)), engine: e.name, connections: callers, goal: want}
	bodies := posts(n, 500)
	user := firstUser * int64(callers+1) // nobody's yet
	for range o.runs {
		err := at(func(s *server, l limit, _ []credentials) error {
			rounds := 0
			var served, bare phases
			if err := resetPeak(s.pid()); err != nil {
				return err
			}
			for begun := time.Now(); time.Since(begun) < o.window; rounds++ {
				if err := s.batches(ctx, callers, bodies, &served); err != nil {
					return fmt.Errorf("batch, server: %w", err)
				}
			}
			for range rounds {
				if err := bareBatches(ctx, l, callers, len(bodies), user, &bare); err != nil {
					return fmt.Errorf("batch, limit: %w", err)
				}
				user += int64(callers)
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
				if err := s.batches(ctx, callers, bodies, &phases{}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// phases are the appends and the commits of some batches.
type phases struct{ appends, commits phase }

// batches uploads a batch for each caller and commits them.
func (s *server) batches(ctx context.Context, callers int, bodies [][]byte, p *phases) error {
	users, err := s.newUsers(callers)
	if err != nil {
		return err
	}
	all, hangUp, err := dialAll(ctx, users)
	if err != nil {
		return err
	}
	defer hangUp()
	open := make([]string, callers)
	if err := s.engine.settle(ctx, file(s.data())); err != nil {
		return err
	}
	appends, err := s.measured(ctx, callers, times(len(bodies)), func(ctx context.Context, c, i int) error {
		return all[c].stage(ctx, &open[c], bodies[i])
	})
	if err != nil {
		return err
	}
	if err := s.engine.settle(ctx, file(s.data())); err != nil {
		return err
	}
	commits, err := s.measured(ctx, callers, times(1), func(ctx context.Context, c, _ int) error {
		return all[c].commit(ctx, open[c])
	})
	p.appends.add(appends)
	p.commits.add(commits)
	return err
}

// stage appends to the open batch, or opens one.
func (c *caller) stage(ctx context.Context, open *string, body []byte) error {
	got, err := c.send(ctx, http.MethodPost, "/storage/"+batchCollection+"?batch="+cmp.Or(url.QueryEscape(*open), "true"), body, "")
	if err != nil || *open != "" {
		return err
	}
	var answer struct {
		Batch string `json:"batch"`
	}
	err = json.Unmarshal(got, &answer)
	*open = answer.Batch
	return err
}

func (c *caller) commit(ctx context.Context, open string) error {
	_, err := c.send(ctx, http.MethodPost, "/storage/"+batchCollection+"?batch="+url.QueryEscape(open)+"&commit=true", []byte("[]"), "")
	return err
}

// bareBatches does on the limit what batches does on the server.
func bareBatches(ctx context.Context, l limit, callers, appends int, user int64, p *phases) (err error) {
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

// thousands is a number as the names of works write it: 10,000.
func thousands(n int) string {
	text := strconv.Itoa(n)
	var out strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return out.String()
}
