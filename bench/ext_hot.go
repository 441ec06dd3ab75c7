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

// hotWork is a write to a record that all connections write.
type hotWork struct {
	name    string
	method  string
	path    string
	body    func(caller int) []byte
	servers int // processes that share the database and the clients
}

func hotWorks(e *engine) []hotWork {
	always := func(body string) func(int) []byte { return func(int) []byte { return []byte(body) } }
	increment := hotWork{name: "increment", method: http.MethodPost, path: "/increment", body: always(`{"pointer":"/n","by":1}`), servers: 1}
	works := []hotWork{
		{name: "put", method: http.MethodPut, body: always(`{"value":` + extCounter + `}`), servers: 1},
		increment,
		{name: "patch", method: http.MethodPatch, body: func(c int) []byte { return fmt.Appendf(nil, `{"m%d":%d}`, c, c) }, servers: 1},
	}
	if e.postgres != nil {
		increment.name, increment.servers = "increment, two servers", 2
		works = append(works, increment)
	}
	return works
}

func hotTable(o *options, out io.Writer) *table {
	window, runs := o.brief()
	fmt.Fprintf(out, "%v windows, median of %d. All connections write the same record; each patch sets its own member.\n\n", window, runs)
	return newTable(out, "engine|connections>|work|ops/s>|ratio to puts>|goal|p50>|p95>|503>|server CPU µs/op>|engine CPU µs/op>")
}

// measureHot measures many clients that write the same record: puts, which only wait for each other, and writes that
// depend on the stored value.
func measureHot(ctx context.Context, o *options, e *engine, t *table) error {
	window, runs := o.brief()
	return onServer(ctx, o.binary, e, nil, func(s *server) error {
		return withSecond(ctx, o, e, func(other *server) error {
			for _, n := range o.size.hotCallers {
				works := hotWorks(e)
				sides := each(works, func(w hotWork) func() (sample, error) {
					return func() (sample, error) { return w.window(ctx, []*server{s, other}[:w.servers], n, window) }
				})
				all, err := alternate(runs, sides...)
				if err != nil {
					return fmt.Errorf("%d connections: %w", n, err)
				}
				for i, got := range all {
					r, goal := got.ops/all[0].ops, none
					if i > 0 && works[i].servers == 1 && n > 1 {
						goal = goalCell(r < hotGoal || got.busy > 0, ratio(hotGoal))
					}
					t.row(e.name, n, works[i].name, got.ops, ratio(r), goal, got.p50, got.p95, got.busy, micros(got.cpu), micros(got.engine))
				}
			}
			return nil
		})
	})
}

// withSecond starts a second server on PostgreSQL.
func withSecond(ctx context.Context, o *options, e *engine, fn func(*server) error) error {
	if e.postgres == nil {
		return fn(nil)
	}
	return onServer(ctx, o.binary, e, []string{"HOLDFAST_BUCKETS__ENABLED=false"}, fn) // its bodies are in the other server's folder
}

func (w *hotWork) window(ctx context.Context, servers []*server, n int, window time.Duration) (got sample, err error) {
	var owners []credentials
	for i := range n {
		c, err := extLoad{}.owner(servers[i%len(servers)], 1)
		if err != nil {
			return got, err
		}
		owners = append(owners, c.with(func(req *http.Request) {
			if req.Method == http.MethodPatch {
				req.Header.Set("Content-Type", "application/merge-patch+json")
			}
		}))
	}
	err = withAll(ctx, owners, func(all []*caller) error {
		path := workload.Place{Namespace: extCounterNamespace, Key: "hot"}.Path()
		if _, err := all[0].send(ctx, http.MethodPut, path, []byte(`{"value":`+extCounter+`}`)); err != nil {
			return fmt.Errorf("the first put: %w", err)
		}
		var busy atomic.Int64
		p, err := servers[0].measured(ctx, n, lasting(window), func(ctx context.Context, c, _ int) error {
			_, err := all[c].send(ctx, w.method, path+w.path, w.body(c))
			if errors.Is(err, errBusy) {
				if busy.Add(1) == 1 {
					fmt.Fprintf(os.Stderr, "bench: %s: %v\n", w.name, err)
				}
				err = nil
			}
			return err
		}, extPublished)
		if err != nil {
			return err
		}
		got = p.sample()
		got.busy = busy.Load()
		got.ops = perSecond(len(p.took)-int(got.busy), p.all)
		return nil
	})
	return got, err
}
