package main

import (
	"context"
	"slices"
	"time"
)

type service interface {
	settings(e *engine) []string

	owner(s *server, n int) (credentials, error)

	operations() []operation

	fill(ctx context.Context, e *engine, owners []credentials) error

	limit(ctx context.Context, o *options, e *engine, owners int) (limit, error)
}

type optional interface {
	enable() ([]string, error)
}

func enabled(s service) ([]string, error) {
	if e, ok := s.(*entry); ok {
		s = e.service
	}
	if o, ok := s.(optional); ok {
		return o.enable()
	}
	return nil, nil
}

type entry struct {
	service

	part    string
	spanner bool // also measured on the Spanner emulator
	also    func(ctx context.Context, o *options, e *engine, at place, t *table) error
	parts   []part
}

func services(n *size) []entry {
	sync, ext, buckets := newSync(), newExt(), newBuckets(n)
	return []entry{
		{service: sync, part: "load", spanner: true, also: sync.measureBatches, parts: []part{
			{name: "memory", head: memoryHead, measure: sync.measureMemory},
			{name: "start", spanner: true, head: startHead, measure: measureStart},
			{name: "neighbour", head: neighbourHead, measure: measureNeighbours},
			{name: "budgets", head: budgetsHead, measure: measureBudgets},
			{name: "rows", slow: true, head: syncRowsHead, measure: sync.measureRows},
			{name: "disk", slow: true, head: diskHead, measure: measureDisk},
		}},
		{service: ext, part: "ext", parts: []part{
			{name: "extkeys", head: extKeysHead, measure: ext.measureKeys},
			{name: "exthot", head: hotHead, measure: ext.measureHot},
			{name: "extrows", slow: true, head: extRowsHead, measure: ext.measureRows},
			{name: "outbox", head: outboxHead, measure: ext.measureOutbox},
		}},
		{service: buckets, part: "buckets", also: buckets.measureFiles, parts: []part{
			{name: "bucketsmemory", head: bucketsMemoryHead, measure: buckets.measureMemory},
			{name: "bucketskeys", head: bucketsKeysHead, measure: buckets.measureKeys},
		}},
	}
}

func (o *options) service(part string) service {
	return &o.services[slices.IndexFunc(o.services, func(e entry) bool { return e.part == part })]
}

type operation struct {
	name  string
	goals map[string]goal
	least int
	most  int

	do func(ctx context.Context, c *caller, i int) error
	// settle waits for the server's background work; may be nil.
	settle func(ctx context.Context, s *server) error
	// prepare creates data that a window uses up, so the window sends a fixed number of requests; may be nil.
	prepare func(ctx context.Context, all []*caller) error
	times   int
}

// goal is the minimum ratio between server and limit, and the maximum server CPU per operation. 0 means no goal.
type goal struct {
	ratio float64
	cpu   time.Duration
}

// On the Spanner emulator, only operations with a goal are measured.
func (op *operation) measuredAt(e *engine, n int) bool {
	return n >= op.least && (op.most == 0 || n <= op.most) && (e.spanner == nil || op.goals[e.name].ratio > 0)
}

func (op *operation) load(ctx context.Context, s *server, owners []credentials, more more) (phase, error) {
	all, hangUp, err := dialAll(ctx, owners)
	if err != nil {
		return phase{}, err
	}
	defer hangUp()
	if op.prepare != nil {
		if err := op.prepare(ctx, all); err != nil {
			return phase{}, err
		}
		more = times(op.times / len(all))
	}
	return s.measured(ctx, len(all), more, func(ctx context.Context, c, i int) error { return op.do(ctx, all[c], i) }, op.settle)
}

// limit is the bare engine, which is the upper limit for any server.
type limit interface {
	// window repeats an operation with callers in parallel, and returns the rate per second.
	window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error)
	close() error
}
