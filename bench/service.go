package main

import (
	"context"
	"time"
)

// service is what a service of the server brings to its measurements. The frame
// does the rest: it starts servers, keeps connections, alternates windows, reads
// what was spent and writes the tables.
type service interface {
	// settings are the environment of a server that serves the load generator
	// on this engine.
	settings(e *engine) []string

	// owner makes the credentials of the n-th owner of data, from 1.
	owner(s *server, n int) (credentials, error)

	// operations are the requests that are measured, in the order of the table.
	operations() []operation

	// fill makes, through the server, what the operations read and write.
	fill(ctx context.Context, e *engine, owners []credentials) error

	// limit opens the bare engine with as many owners, who have the same.
	limit(ctx context.Context, o *options, e *engine, owners int) (limit, error)
}

// entry is a service with its parts of the document.
type entry struct {
	service

	part    string // in which its operations are measured
	spanner bool   // this part is measured on the emulator of Spanner, too
	also    func(ctx context.Context, o *options, e *engine, at place, t *table) error
	parts   []part // what else is measured
}

// services are all that are measured. A new service is one entry.
func services() []entry {
	sync, ext := newSync(), newExt()
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
	}
}

// operation is a request that is repeated.
type operation struct {
	name  string
	goals map[string]goal // by engine
	least int             // connections that it is measured at
	most  int             // 0: any

	// do makes the i-th request and checks the answer.
	do func(ctx context.Context, c *caller, i int) error
	// settle waits for what the requests leave the server to do; nil: nothing.
	settle func(ctx context.Context, s *server) error
}

// goal is the least ratio of server to limit and the most CPU of the server
// per operation; 0: none is set.
type goal struct {
	ratio float64
	cpu   time.Duration
}

// measuredAt reports whether the operation is measured at n connections.
// Spanner's emulator is asked only where there is a goal.
func (op *operation) measuredAt(e *engine, n int) bool {
	return n >= op.least && (op.most == 0 || n <= op.most) && (e.spanner == nil || op.goals[e.name].ratio > 0)
}

// load repeats the operation, each owner on a connection of its own.
func (op *operation) load(ctx context.Context, s *server, owners []credentials, more more) (phase, error) {
	all, hangUp, err := dialAll(ctx, owners)
	if err != nil {
		return phase{}, err
	}
	defer hangUp()
	return s.measured(ctx, len(all), more, func(ctx context.Context, c, i int) error { return op.do(ctx, all[c], i) }, op.settle)
}

// limit is the bare engine: what no server on top of it can exceed.
type limit interface {
	// window repeats an operation for so long and returns how often in a second.
	// There are as many callers as the server has clients.
	window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error)
	close() error
}
