package pgdb

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// layoutAge is when the layout is read again, in the background; layoutPause is the time between two attempts.
	layoutAge   = 30 * time.Second
	layoutPause = time.Second
)

var (
	// The statement hashes sample values, so that readShards notices a server whose hashes differ from ours.
	sqlHashes = Statement{Name: "citus.hashes", SQL: `
		SELECT worker_hash(-1234567890123::bigint), worker_hash('0b39fa7e-0f3e-4d6f-9c3f-b4d4a25c1be5'::uuid)`}
	sqlShards = Statement{Name: "citus.shards", SQL: `
		SELECT s.shardminvalue::integer, s.shardmaxvalue::integer, n.nodename, n.nodeport
		FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
		WHERE s.logicalrelid = to_regclass($1::text) AND s.shardminvalue IS NOT NULL ORDER BY s.shardminvalue::integer`}
	sqlLimitProbe = Statement{Name: "citus.limit_probe", SQL: `SELECT set_config('citus.node_connection_timeout', $1::text, true)`}
	sqlProbe      = Statement{Name: "citus.probe", SQL: `SELECT citus_check_connection_to_node($1::text, $2::integer)`}
)

type address struct {
	host string
	port int32
}

// shard is a range of hashes, ends included, on a node.
type shard struct {
	from, to int32
	on       address
}

// layout says which node has which hashes.
type layout struct {
	shards []shard // in order
	nodes  map[address]*node
	read   time.Time
}

// find returns the node with this hash, or nil.
func (l *layout) find(hash int32) *node {
	i, found := slices.BinarySearchFunc(l.shards, hash, func(s shard, h int32) int {
		switch {
		case s.to < h:
			return -1
		case s.from > h:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return l.nodes[l.shards[i].on]
}

// nodes knows the layout of a distributed database.
type nodes struct {
	most  int // connections of the pool
	life  context.Context
	read  func(context.Context) (shards []shard, citus bool, err error)
	probe func(context.Context, address) (answers bool, err error)

	layout  atomic.Pointer[layout] // nil if it is unknown, or the server is not Citus
	plain   atomic.Bool            // not Citus
	reading atomic.Bool
	wide    *node // for statements on all nodes

	mu    sync.Mutex
	tried time.Time // when the layout was read
}

// Distributed returns db for a service that Citus distributes like table: a statement's Key then selects its node.
// Without Citus it behaves like db. Both share the pool.
func (db *DB) Distributed(table string) *DB {
	plain := *db
	plain.nodes, plain.opts.Observe, plain.opts.Fault = nil, nil, nil // its statements are not requests
	distributed := *db
	distributed.nodes = newNodes(db.life, db.opts.MaxConns,
		func(ctx context.Context) ([]shard, bool, error) { return plain.readShards(ctx, table) }, plain.probe)
	return &distributed
}

// newNodes returns nodes without a layout. Statements on all nodes may use a quarter of the connections.
func newNodes(
	life context.Context, limit int, read func(context.Context) ([]shard, bool, error), probe func(context.Context, address) (bool, error),
) *nodes {
	ns := &nodes{most: limit, life: life, read: read, probe: probe, wide: newNode(life, max(1, limit/4))}
	ns.wide.others = func() (all []*node) {
		if l := ns.layout.Load(); l != nil {
			for _, n := range l.nodes {
				all = append(all, n)
			}
		}
		return all
	}
	return ns
}

// nodeOf returns the node that runs a statement, or nil if it is unknown or does not matter.
func (db *DB) nodeOf(s *Statement, args []any) *node {
	return db.nodes.of(s, func() (int32, bool) { return keyOf(s, args) })
}

// nodeOfCall is nodeOf for a Call.
func (db *DB) nodeOfCall(s *Statement, a *Args) *node {
	return db.nodes.of(s, func() (int32, bool) {
		if s.Key == 0 || s.Key > len(a.values) {
			return 0, false
		}
		return hashOfBinary(a.values[s.Key-1])
	})
}

// of returns the node for a statement with this hash.
func (ns *nodes) of(s *Statement, key func() (hash int32, ok bool)) *node {
	if ns == nil || s.Key == 0 && !s.Wide {
		return nil
	}
	l := ns.current()
	if l == nil {
		return nil
	}
	if s.Wide {
		return ns.wide
	}
	hash, ok := key()
	if !ok {
		return nil
	}
	return l.find(hash)
}

// current returns the layout, maybe an old one, and reads it again in the background.
func (ns *nodes) current() *layout {
	l := ns.layout.Load()
	if ns.plain.Load() || l != nil && time.Since(l.read) < layoutAge || !ns.reading.CompareAndSwap(false, true) {
		return l
	}
	go func() {
		defer ns.reading.Store(false)
		ns.refresh()
	}()
	return l
}

// refresh reads the layout. Errors keep the old one.
func (ns *nodes) refresh() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if time.Since(ns.tried) < layoutPause {
		return
	}
	defer func() { ns.tried = time.Now() }()
	shards, citus, err := ns.read(ns.life)
	if err != nil {
		return // the caller's statement reports the error, too
	}
	ns.plain.Store(!citus)
	if len(shards) == 0 {
		return
	}
	ns.set(shards)
}

// set replaces the layout. Known nodes keep their state. Each may use half of the connections, so that a silent node
// leaves the other half.
func (ns *nodes) set(shards []shard) {
	old, l := ns.layout.Load(), &layout{shards: shards, nodes: map[address]*node{}, read: time.Now()}
	for _, s := range shards {
		l.nodes[s.on] = nil
	}
	slots := (ns.most + 1) / 2
	if len(l.nodes) == 1 {
		slots = ns.most
	}
	for at := range l.nodes {
		if old != nil && old.nodes[at] != nil && cap(old.nodes[at].slots) == slots {
			l.nodes[at] = old.nodes[at]
			continue
		}
		n := newNode(ns.life, slots)
		n.wide, n.probe = ns.wide, func(ctx context.Context) (bool, error) { return ns.probe(ctx, at) }
		l.nodes[at] = n
	}
	ns.layout.Store(l)
	if old == nil {
		return
	}
	for at, n := range old.nodes {
		if l.nodes[at] != n {
			n.remove()
		}
	}
}

// remove ends probes.
func (n *node) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = true
}

// readShards returns a table's hash ranges, or none if this package cannot compute the table's hash.
func (db *DB) readShards(ctx context.Context, table string) (shards []shard, citus bool, err error) {
	if citus, err = db.IsCitus(ctx); err != nil || !citus {
		return nil, citus, err
	}
	var bigint, uuid int32
	if _, err = db.QueryRow(ctx, sqlHashes, nil, &bigint, &uuid); err != nil {
		return nil, true, err
	}
	ours, _ := hashOf(int64(-1234567890123))
	oursOfUUID, _ := hashOf("0b39fa7e-0f3e-4d6f-9c3f-b4d4a25c1be5")
	if bigint != ours || uuid != oursOfUUID {
		return nil, false, nil // e.g. another byte order
	}
	var row shard
	err = db.ForEach(ctx, sqlShards, []any{table}, func() { shards = nil }, func() error {
		shards = append(shards, row)
		return nil
	}, &row.from, &row.to, &row.on.host, &row.on.port)
	return shards, true, err
}

// probeTime is how long the coordinator tries to connect to a node.
const probeTime = 2 * time.Second

// probe asks the coordinator whether it can connect to a node. An error says that the coordinator did not answer.
func (db *DB) probe(ctx context.Context, at address) (answers bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*probeTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	if _, err := exec(ctx, tx, sqlLimitProbe, []any{probeTime.String()}); err != nil {
		return false, err
	}
	_, err = queryOne(ctx, tx, sqlProbe, []any{at.host, at.port}, []any{&answers})
	if ctx.Err() != nil {
		return false, nil // the coordinator is waiting for the node
	}
	return answers, err
}
