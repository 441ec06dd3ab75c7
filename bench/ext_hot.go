package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	workload "holdfast/internal/workload/ext"
)

const hotGoal = 0.50

// hotWork is a write to a record that all connections write. Its body may contain the number of the connection.
type hotWork struct {
	name, method, path, body string
	servers                  int // processes that share the database and the clients
}

var hotWorks = []hotWork{
	{"put", http.MethodPut, "", `{"value":` + extCounter + `}`, 1},
	{"increment", http.MethodPost, "/increment", `{"pointer":"/n","by":1}`, 1},
	{"patch", http.MethodPatch, "", `{"m%[1]d":%[1]d}`, 1},
	{"increment, two servers", http.MethodPost, "/increment", `{"pointer":"/n","by":1}`, 2},
}

func hotTable(o *options, out io.Writer) *table {
	window, runs := o.brief()
	fmt.Fprintf(out, "%v windows, median of %d. All connections write the same record; each patch sets its own member.\n\n", window, runs)
	return newTable(out, "engine|connections>|work|ops/s>|ratio to puts>|goal|p50>|p95>|503>|server CPU µs/op>|engine CPU µs/op>")
}

// measureHot measures many clients that write the same record: puts, which only wait for each other, and writes that
// depend on the stored value. On PostgreSQL two servers share the record.
func measureHot(ctx context.Context, o *options, e *engine, t *table) error {
	return onServer(ctx, o.binary, e, nil, func(s *server) error {
		if e.postgres == nil {
			return measureHotOn(ctx, o, t, hotWorks[:3], s, nil)
		}
		// The bodies are in the first server's folder.
		return onServer(ctx, o.binary, e, []string{"HOLDFAST_BUCKETS__ENABLED=false"}, func(other *server) error {
			return measureHotOn(ctx, o, t, hotWorks, s, other)
		})
	})
}

func measureHotOn(ctx context.Context, o *options, t *table, works []hotWork, servers ...*server) error {
	window, runs := o.brief()
	for _, n := range o.size.hotCallers {
		all, err := alternate(runs, each(works, func(w hotWork) func() (sample, error) {
			return func() (sample, error) { return w.window(ctx, servers[:w.servers], n, window) }
		})...)
		if err != nil {
			return fmt.Errorf("%d connections: %w", n, err)
		}
		for i, got := range all {
			r, goal := got.ops/all[0].ops, none
			if i > 0 && works[i].servers == 1 && n > 1 {
				goal = goalCell(r < hotGoal || got.busy > 0, ratio(hotGoal))
			}
			t.row(servers[0].engine.name, n, works[i].name, got.ops, ratio(r), goal, got.p50, got.p95, got.busy, micros(got.cpu), micros(got.engine))
		}
	}
	return nil
}

func (w *hotWork) window(ctx context.Context, servers []*server, n int, window time.Duration) (got sample, err error) {
	owners := make([]credentials, n)
	for i := range owners {
		if owners[i], err = (extLoad{}).owner(servers[i%len(servers)], 1); err != nil {
			return got, err
		}
		if w.method == http.MethodPatch {
			owners[i] = owners[i].with(func(req *http.Request) { req.Header.Set("Content-Type", "application/merge-patch+json") })
		}
	}
	var busy atomic.Int64
	path := workload.RecordKey{Namespace: extCounterNamespace, Key: "hot"}.Path()
	op := operation{
		settle: extPublished,
		prepare: func(ctx context.Context, s *server, all []*caller) error {
			for i, c := range all {
				c.number = i
			}
			first, err := (extLoad{}).owner(s, 1)
			if err != nil {
				return err
			}
			return with(ctx, first, func(c *caller) error {
				return done(c.do(ctx, http.MethodPut, path, []byte(`{"value":`+extCounter+`}`)))
			})
		},
		do: func(ctx context.Context, c *caller, _ int) error {
			body := []byte(w.body)
			if w.method == http.MethodPatch {
				body = fmt.Appendf(nil, w.body, c.number)
			}
			_, err := c.send(ctx, w.method, path+w.path, body)
			if errors.Is(err, errBusy) {
				if busy.Add(1) == 1 {
					fmt.Fprintf(os.Stderr, "bench: %s: %v\n", w.name, err)
				}
				err = nil
			}
			return err
		},
	}
	got, err = op.window(ctx, servers[0], owners, window)
	got.busy = busy.Load()
	got.ops -= perSecond(int(got.busy), window)
	return got, err
}
