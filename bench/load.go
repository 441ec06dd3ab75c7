package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// service is a kind of data, with the requests of its clients. Holdfast's services and peers implement it.
type service interface {
	// owner returns the n-th owner's credentials.
	owner(s *server, n int) (credentials, error)
	operations() []operation
	// fill writes the records that the operations read and overwrite.
	fill(ctx context.Context, s *server, owners []credentials) error
}

// load is a service whose operations are compared with the bare engine.
type load struct {
	service

	part        string
	file        string              // the server's database, if the engine is SQLite
	connections int32               // of the limit, if the engine is PostgreSQL
	open        func(b *bare) error // prepares the limit; may be nil
}

// loads returns the services of Holdfast. A new service is added here.
func loads(n *size) []load {
	buckets := newBuckets(n)
	return []load{
		{service: newSync(n), part: "load", file: syncFile, connections: 10},
		{service: extLoad{}, part: "ext", file: extFile, connections: 20},
		{service: buckets, part: "buckets", file: "buckets.db", connections: 10, open: buckets.open},
	}
}

// do sends a connection's i-th request, and checks the answer.
type do func(ctx context.Context, c *caller, i int) error

// operation is what each connection repeats.
type operation struct {
	name  string
	goals map[string]goal // by engine
	most  int             // connections; 0 means any number
	// attack means that a client repeats the operation to attack a neighbour; see measureNeighbours.
	attack bool

	do do
	// settle waits for the server's background work; may be nil.
	settle func(ctx context.Context, s *server) error
	// prepare creates data that a round uses up; may be nil. A round sends times requests on each connection.
	prepare func(ctx context.Context, s *server, all []*caller) error
	times   int // 0: as many as fit into the window

	// limit returns the operation without a server; nil for peers. prepareLimit is like prepare.
	limit        func(b *bare) step
	prepareLimit func(ctx context.Context, b *bare, callers int) error
}

// goal is the minimum ratio between server and limit, and the maximum server CPU per operation. 0 means no goal.
type goal struct {
	ratio float64
	cpu   time.Duration
}

// onBoth returns the same goal for both engines.
func onBoth(g goal) map[string]goal { return map[string]goal{"sqlite": g, "postgres": g} }

func (g goal) String() string {
	switch {
	case g.ratio == 0:
		return none
	case g.cpu == 0:
		return fmt.Sprintf("%.2f", g.ratio)
	}
	return fmt.Sprintf("%.2f, %d µs", g.ratio, g.cpu.Microseconds())
}

// named returns the operation with this name, or nil.
func named(of service, name string) *operation {
	all := of.operations()
	if i := slices.IndexFunc(all, func(op operation) bool { return op.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// load sends requests on a connection per owner. Every connection uses its own owner, like a device, because an
// owner's writes wait for each other.
func (op *operation) load(ctx context.Context, s *server, owners []credentials, more while) (p phase, err error) {
	err = withAll(ctx, owners, func(all []*caller) error {
		p, err = rounds(more, op.times, func(more while) (phase, error) {
			if op.prepare != nil {
				if err := op.prepare(ctx, s, all); err != nil {
					return phase{}, err
				}
			}
			return s.measured(ctx, len(all), more, func(ctx context.Context, c, i int) error { return op.do(ctx, all[c], i) }, op.settle)
		})
		return err
	})
	return p, err
}

// window measures the operation for a time d, with a connection per owner.
func (op *operation) window(ctx context.Context, s *server, owners []credentials, d time.Duration) (got sample, err error) {
	if err := s.resetPeak(); err != nil {
		return got, err
	}
	p, err := op.load(ctx, s, owners, lasting(d))
	if err != nil {
		return got, err
	}
	got = p.sample()
	got.peak, err = s.peak()
	return got, err
}

// brief returns a short window and few runs, for the many operations without a goal.
func (o *options) brief() (window time.Duration, runs int) { return o.window / 5, min(o.runs, 3) }

// measure compares the server with the bare engine. All rows use the same server and limit.
func (l *load) measure(ctx context.Context, o *options, e *engine, t *table) error {
	n := slices.Max(o.connections)
	return onServer(ctx, o.binary, l.service, e, nil, func(s *server) error {
		if err := s.fillAll(ctx, n); err != nil {
			return err
		}
		b, err := l.copy(ctx, s, n)
		if err != nil {
			return err
		}
		err = o.eachWork(l.operations(), func(op *operation, n int) error { return op.measure(ctx, o, s, b, s.owners[:n], t) })
		return errors.Join(err, b.close())
	})
}

// eachWork calls fn for each selected work and number of connections.
func (o *options) eachWork(all []operation, fn func(op *operation, connections int) error) error {
	for i := range all {
		op := &all[i]
		for _, n := range o.connections {
			if !o.works.MatchString(op.name) || op.most > 0 && n > op.most {
				continue
			}
			if err := fn(op, n); err != nil {
				return fmt.Errorf("%s at %d: %w", op.name, n, err)
			}
		}
	}
	return nil
}

const loadColumns = "work|engine|connections>|server ops/s>|limit ops/s>|ratio>|goal|p50>|p99>|server CPU µs/op>|engine CPU µs/op>|peak memory>"

// loadIntro says how long operations are measured, which depends on whether they have a goal.
func loadIntro(o *options) string {
	window, runs := o.brief()
	return fmt.Sprintf("%v windows, median of %d; operations without a goal: %v, %d.", o.window, o.runs, window, runs)
}

// measure writes a row: the server and its limit in alternating windows.
func (op *operation) measure(ctx context.Context, o *options, s *server, b *bare, owners []credentials, t *table) error {
	goal := op.goals[s.engine.name]
	window, runs := o.window, o.runs
	if goal.ratio == 0 {
		window, runs = o.brief()
	}
	all, err := alternate(runs,
		func() (sample, error) { return op.window(ctx, s, owners, window) },
		func() (sample, error) {
			got, err := b.window(ctx, op, len(owners), window)
			if err != nil {
				err = fmt.Errorf("limit: %w", err)
			}
			return got, err
		})
	if err != nil {
		return err
	}
	server, limit := all[0], all[1]
	missed := server.ops/limit.ops < goal.ratio || goal.cpu > 0 && server.cpu > goal.cpu
	t.row(op.name, s.engine.name, len(owners), server.ops, limit.ops, ratio(server.ops/limit.ops), goalCell(missed, goal),
		server.p50, server.p99, micros(server.cpu), micros(server.engine), size64(server.peak))
	if o.profiles == "" {
		return nil
	}
	return s.profile(ctx, o, fmt.Sprintf("%s-%s-%d", op.name, s.engine.name, len(owners)), func(more while) error {
		_, err := op.load(ctx, s, owners, more)
		return err
	})
}
