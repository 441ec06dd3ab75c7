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

	load "holdfast/internal/workload/ext"
)

const hotGoal = 0.50

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

func hotHead(o *options, out io.Writer) {
	window, runs := o.brief()
	fmt.Fprintf(out, "%v windows, median of %d. All connections write the same record; each patch sets its own member.\n\n", window, runs)
	fmt.Fprintln(out, "| engine | connections | work | ops/s | ratio to puts | goal | p50 | p95 | 503 | server CPU µs/op | engine CPU µs/op |")
	fmt.Fprintln(out, "|---|--:|---|--:|--:|---|--:|--:|--:|--:|--:|")
}

type hotRow struct {
	samples []hotSample
	busy    int64
}

type hotSample struct {
	sample

	p95 time.Duration
}

// measureHot measures many clients that write the same record: puts, which only wait for each other, and writes that
// depend on the stored value.
func (w *extLoad) measureHot(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		servers := []*server{s}
		if e.postgres != nil {
			other, err := serve(ctx, o.binary, e, w.settings(e))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, other.remove()) }()
			servers = append(servers, other)
		}
		for _, n := range o.size.hotCallers {
			if err := w.measureHotAt(ctx, o, servers, n, out); err != nil {
				return fmt.Errorf("%d connections: %w", n, err)
			}
		}
		return nil
	})
}

func (w *extLoad) measureHotAt(ctx context.Context, o *options, servers []*server, n int, out io.Writer) error {
	e := servers[0].engine
	works := hotWorks(e)
	rows := make([]hotRow, len(works))
	window, runs := o.brief()
	for range runs {
		for i := range works {
			if err := w.hotWindow(ctx, servers[:works[i].servers], &works[i], n, window, &rows[i]); err != nil {
				return fmt.Errorf("%s: %w", works[i].name, err)
			}
		}
	}
	puts := rows[0].ops()
	for i, r := range rows {
		goal := "–"
		if ratio := r.ops() / puts; i > 0 && works[i].servers == 1 && n > 1 {
			if goal = fmt.Sprintf("%.2f", hotGoal); ratio < hotGoal || r.busy > 0 {
				goal = "**missed** " + goal
			}
		}
		fmt.Fprintf(out, "| %s | %d | %s | %.*f | %.2f | %s | %s | %s | %d | %d | %s |\n", e.name, n, works[i].name,
			digits(r.ops()), r.ops(), r.ops()/puts, goal,
			ms(median(r.samples, func(s hotSample) time.Duration { return s.p50 })),
			ms(median(r.samples, func(s hotSample) time.Duration { return s.p95 })), r.busy,
			median(r.samples, func(s hotSample) time.Duration { return s.cpu }).Microseconds(),
			engineCPU(median(r.samples, func(s hotSample) time.Duration { return s.engine })))
	}
	return nil
}

func (r *hotRow) ops() float64 { return median(r.samples, func(s hotSample) float64 { return s.ops }) }

func (w *extLoad) hotWindow(ctx context.Context, servers []*server, work *hotWork, n int, window time.Duration, r *hotRow) error {
	var owners []credentials
	for i := range n {
		c, err := w.owner(servers[i%len(servers)], 1)
		if err != nil {
			return err
		}
		sign := c.sign
		c.sign = func(req *http.Request) error {
			if req.Method == http.MethodPatch {
				req.Header.Set("Content-Type", "application/merge-patch+json")
			}
			return sign(req)
		}
		owners = append(owners, c)
	}
	all, hangUp, err := dialAll(ctx, owners)
	if err != nil {
		return err
	}
	defer hangUp()
	path := load.Place{Namespace: extCounterNamespace, Key: "hot"}.Path()
	if _, err := all[0].send(ctx, http.MethodPut, path, []byte(`{"value":`+extCounter+`}`), ""); err != nil {
		return fmt.Errorf("the first put: %w", err)
	}
	var busy atomic.Int64
	p, err := servers[0].measured(ctx, n, lasting(window), func(ctx context.Context, c, _ int) error {
		_, err := all[c].send(ctx, work.method, path+work.path, work.body(c), "")
		if errors.Is(err, errBusy) {
			if busy.Add(1) == 1 {
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", work.name, err)
			}
			err = nil
		}
		return err
	}, extPublished)
	if err != nil {
		return err
	}
	got := hotSample{sample: p.sample()}
	got.p95 = p.took[len(p.took)*95/100]
	got.ops = perSecond(len(p.took)-int(busy.Load()), p.all)
	r.samples, r.busy = append(r.samples, got), r.busy+busy.Load()
	return nil
}
