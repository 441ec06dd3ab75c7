package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
)

// Works without a goal are many, and a run should not take half an hour.
func (o *options) brief() (window time.Duration, runs int) { return o.window / 5, min(o.runs, 3) }

func extHead(o *options, out io.Writer) {
	window, runs := o.brief()
	fmt.Fprintf(out, "Windows of %v, medians of %d; of works without a goal %v and %d.\n\n", o.window, o.runs, window, runs)
	(&table{out: out}).head()
}

// measureExt fills the table of extension storage for one engine.
func measureExt(ctx context.Context, o *options, e *engine, out io.Writer) error {
	connections := slices.DeleteFunc(slices.Clone(o.connections), func(n int) bool { return n > o.size.extCallers })
	if len(connections) == 0 {
		return errors.New("-connections has no number that extension storage is measured at")
	}
	most := slices.Max(connections)
	return onServer(ctx, o, e, nil, func(s *server) error {
		installs, err := s.newInstalls(0, most)
		if err != nil {
			return err
		}
		if err := fillInstalls(ctx, installs); err != nil {
			return fmt.Errorf("fill the server: %w", err)
		}
		l, err := openExtLimit(ctx, e, most)
		if err != nil {
			return fmt.Errorf("fill the limit: %w", err)
		}
		t := &table{out: out}
		for _, w := range extWorks() {
			for _, n := range connections {
				if err := measureExtWork(ctx, o, s, l, &w, installs[:n], t); err != nil {
					return errors.Join(fmt.Errorf("%s at %d: %w", w.name, n, err), l.close())
				}
			}
		}
		return l.close()
	})
}

// newInstalls makes credentials of n installs, from a number on, that may do
// everything in the namespaces of the works.
func (s *server) newInstalls(from, n int) (all []credentials, err error) {
	for i := from; i < from+n; i++ {
		c, err := s.install(i)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *server) install(n int) (credentials, error) {
	tenant, install := owner(n)
	token, err := s.bearers.Sign(map[string]any{"tenant_id": tenant, "install_id": install, "ns": map[string]string{
		extPutNamespace: "rw", extSchemaNamespace: "rw", extListNamespace: "rw", extBulkNamespace: "rw",
		extBatchNamespace: "rw", extOtherNamespace: "rw", extCounterNamespace: "rw",
	}}, time.Now(), 24*time.Hour)
	return credentials{Token: token, Endpoint: "http://" + s.listen + "/ext/v1/installs/" + install}, err
}

// fillInstalls makes the schema and the records that the works read and write.
func fillInstalls(ctx context.Context, installs []credentials) error {
	all, hangUp, err := dialAll(ctx, installs)
	if err != nil {
		return err
	}
	defer hangUp()
	_, _, err = drive(ctx, len(all), times(1), func(ctx context.Context, i, _ int) error {
		c := all[i]
		post := func(path string, body []byte) error {
			_, err := c.send(ctx, http.MethodPost, path, body, "")
			return err
		}
		schemas := "/namespaces/" + extSchemaNamespace + "/schemas"
		if err := post(schemas, []byte(`{"schema":`+extSchema+`}`)); err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPatch, schemas+"/1", []byte(`{"status":"active"}`), ""); err != nil {
			return err
		}
		for _, ops := range extFill() {
			for some := range slices.Chunk(ops, extBulk) {
				if err := post("/batch", extBatch(some)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// measureExtWork fills one row. Every connection has an install of its own:
// writes of one wait for each other.
func measureExtWork(ctx context.Context, o *options, s *server, l extLimit, w *extWork, installs []credentials, t *table) error {
	n := len(installs)
	r := row{work: w.name, engine: s.engine.name, connections: n, goal: w.goals[s.engine.name]}
	window, runs := o.window, o.runs
	if r.goal.ratio == 0 {
		window, runs = o.brief()
	}
	done := s.published
	if !w.writes() {
		done = atOnce
	}
	load := func(more more) (phase, error) {
		all, hangUp, err := dialAll(ctx, installs)
		if err != nil {
			return phase{}, err
		}
		defer hangUp()
		return s.measuredUntil(ctx, n, more, func(ctx context.Context, c, i int) error {
			answer, err := all[c].send(ctx, w.method, w.path(i), w.body, "")
			if found := bytes.Count(answer, []byte(`"revision":`)); err == nil && i == 0 && found != w.finds {
				err = fmt.Errorf("%d records, want %d, in %.200s", found, w.finds, answer)
			}
			return err
		}, done)
	}
	for range runs {
		if err := resetPeak(s.pid()); err != nil {
			return err
		}
		got, err := load(lasting(window))
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		bare, err := l.window(ctx, w, n, window)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		most, err := peak(s.pid())
		if err != nil {
			return err
		}
		r.server, r.limit, r.peak = append(r.server, got.sample()), append(r.limit, bare), max(r.peak, most)
	}
	t.row(&r)
	if r.goal.ratio > 0 && !r.missed() {
		return nil
	}
	return s.profile(ctx, o, r.title(), func(more more) error {
		_, err := load(more)
		return err
	})
}

// published waits until the relay has published all events of the audit: that
// is a part of the writes, and would otherwise go on while others are measured.
func (s *server) published(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	const waiting = `SELECT EXISTS (SELECT 1 FROM ext_storage_outbox)`
	until := func(left func() (bool, error)) error {
		for {
			if left, err := left(); err != nil || !left {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("events are not published: %w", ctx.Err())
			}
		}
	}
	if s.engine.postgres == nil {
		return withFile(extFile(s.data()), func(c *sqlite.Conn) error {
			return until(func() (left bool, err error) {
				err = lite(c, waiting, func(r *sqlite.Stmt) { left = r.ColumnBool(0) })
				return left, err
			})
		})
	}
	conn, err := pgx.Connect(ctx, s.engine.postgres.URL())
	if err != nil {
		return err
	}
	err = until(func() (left bool, err error) {
		err = conn.QueryRow(ctx, waiting).Scan(&left)
		return left, err
	})
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
