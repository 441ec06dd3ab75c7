package blobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// Defaults of Options.
const (
	DefaultStall     = 30 * time.Second
	DefaultReadStall = 10 * time.Second
	DefaultAvoid     = 15 * time.Second
)

// MaxCopies is the most copies per body that the setting allows.
const MaxCopies = 9

// badCopies limits how many bad copies found by reads are remembered.
const badCopies = 4096

// Options configures a Cluster. Zero durations mean the defaults; functions may be nil.
type Options struct {
	Clock clock.Clock // nil: time.Now
	// Stall is how long a node may make no progress. A busy disk may take seconds to sync a file.
	Stall time.Duration
	// ReadStall limits the time to read a chunk or the free space.
	ReadStall time.Duration
	// Avoid is how long a node is avoided after a failure.
	Avoid time.Duration
	// Report receives problems found by reads. It must not block. Failed nodes are reported only to Observe if other
	// copies can be read.
	Report func(Finding)
	// Missing, if set, is called before a read fails because a node is unknown, which another process may have added.
	Missing func(context.Context)
	// Observe, if set, is called for each attempt to use a copy. It must not block.
	Observe func(node string, e Event)
}

// Event is the outcome of an attempt to use a node.
type Event string

const (
	Written     Event = "written"
	WriteFailed Event = "write_failed"
	Read        Event = "read"
	ReadFailed  Event = "read_failed"
)

// observe reports an attempt to metrics.
func (c *Cluster) observe(m *member, e Event) {
	if c.Observe != nil {
		c.Observe(m.id, e)
	}
}

// Finding is a bad copy, or a body without a good copy.
type Finding struct {
	Node      string // empty if the problem is Lost
	Path      string // BodyPath
	Problem   Problem
	Reference buckets.Reference // the row that names the body
}

// Problem is the kind of a Finding.
type Problem string

const (
	Missing   Problem = "missing"   // the node works, but has no file
	Truncated Problem = "truncated" // too short or too long
	Corrupt   Problem = "corrupt"
	Lost      Problem = "lost" // no node has a good copy of some chunk
	// Unframed is a good copy written before chunk checksums existed. Every read must verify the whole copy.
	Unframed Problem = "unframed"
)

// Node is a storage node. Its ID is "datacenter:storage_id".
type Node struct {
	ID     string
	State  buckets.NodeState
	Driver Driver
}

// Status is a node's state as seen by a Cluster.
type Status struct {
	ID       string
	State    buckets.NodeState
	Space    Space
	HasSpace bool  // Space was read at least once
	Avoided  bool  // failed recently, so it is tried last
	Err      error // of the last failure; nil while it works
}

// Cluster is the set of storage nodes. It is safe for concurrent use.
type Cluster struct {
	Options
	bad    *lru.Cache[badCopy, struct{}]        // found by reads
	marked atomic.Pointer[map[badCopy]struct{}] // from the database, see SetDamaged

	mu      sync.Mutex
	random  *rand.Rand
	members map[string]*member
	pending int // see SetPending

	work   tasks
	ctx    context.Context //nolint:containedctx // outlives requests
	cancel context.CancelFunc
}

var _ buckets.Bodies = (*Cluster)(nil)

type badCopy struct{ node, path string }

// member is a node. Cluster.mu protects all fields except the ID and the driver.
type member struct {
	id, datacenter string
	driver         Driver

	state      buckets.NodeState
	space      Space
	hasSpace   bool
	answer     chan struct{} // closed when the node answered or stalled; nil if it was not asked
	avoidUntil time.Time
	stalled    bool  // gets no bodies until it responds
	err        error // of the last failure
}

// NewCluster returns a cluster without nodes.
func NewCluster(o Options) *Cluster {
	if o.Stall == 0 {
		o.Stall = DefaultStall
	}
	if o.ReadStall == 0 {
		o.ReadStall = DefaultReadStall
	}
	if o.Avoid == 0 {
		o.Avoid = DefaultAvoid
	}
	bad, err := lru.New[badCopy, struct{}](badCopies)
	if err != nil {
		panic(err) // only for a size below 1
	}
	c := &Cluster{
		Options: o, bad: bad, members: map[string]*member{},
		random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Set replaces the nodes. A node whose driver is unchanged keeps its health. Running requests on removed nodes
// continue; the caller closes their drivers.
func (c *Cluster) Set(nodes ...Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := make(map[string]*member, len(nodes))
	for _, n := range nodes {
		m := c.members[n.ID]
		if m == nil || m.driver != n.Driver {
			m = &member{id: n.ID, datacenter: buckets.Datacenter(n.ID), driver: n.Driver}
		}
		m.state = n.State
		members[n.ID] = m
	}
	c.members = members
}

// Nodes lists the nodes by ID.
func (c *Cluster) Nodes() []Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Status, 0, len(c.members))
	for _, m := range c.members {
		all = append(all, Status{
			ID: m.id, State: m.state, Space: m.space, HasSpace: m.hasSpace,
			Avoided: c.isAvoided(m), Err: m.err,
		})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// SetPending sets the number of uninitialized nodes, e.g. because a disk is not mounted.
func (c *Cluster) SetPending(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = n
}

// Copies returns 2 if several nodes, including pending nodes, accept bodies, otherwise 1.
func (c *Cluster) Copies() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.pending
	for _, m := range c.members {
		if m.state == buckets.NodeActive {
			n++
		}
	}
	return min(2, max(1, n))
}

// Refresh reads the free space and health of all nodes. Call it every few seconds.
func (c *Cluster) Refresh(ctx context.Context) { c.ask(ctx, func(*member) bool { return true }) }

// ask reads the free space of the nodes selected by which, which it calls with c.mu held. Concurrent callers share a
// request, so that rejected writes do not load a node.
func (c *Cluster) ask(ctx context.Context, which func(*member) bool) {
	c.mu.Lock()
	var answers []chan struct{}
	for _, m := range c.members {
		if !which(m) {
			continue
		}
		if m.answer == nil {
			answer := make(chan struct{})
			m.answer = answer
			c.work.Go(func() {
				defer close(answer)
				c.refresh(m)
			})
		}
		answers = append(answers, m.answer)
	}
	c.mu.Unlock()
	for _, answer := range answers {
		select {
		case <-answer:
		case <-ctx.Done():
		}
	}
}

// refresh asks a node for its space. A node that answers is no longer stalled.
func (c *Cluster) refresh(m *member) {
	space, err := within(c.ctx, c, c.ReadStall, func(ctx context.Context) (Space, error) {
		defer func() {
			c.mu.Lock()
			m.answer = nil
			c.mu.Unlock()
		}()
		return m.driver.Space(ctx)
	})
	if err != nil {
		c.blame(c.ctx, m, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.space, m.hasSpace, m.stalled, m.err = space, true, false, nil
}

// Close cancels background work and waits until ctx is done. It does not close the drivers.
func (c *Cluster) Close(ctx context.Context) error {
	c.cancel()
	return c.Wait(ctx)
}

// Wait waits for background work, such as removing copies from failed writes.
func (c *Cluster) Wait(ctx context.Context) error { return c.work.Wait(ctx) }

// Remove tries all nodes even if some fail.
func (c *Cluster) Remove(ctx context.Context, path string, sharks []string) error {
	errs := make([]error, len(sharks))
	var wg sync.WaitGroup
	for i, id := range sharks {
		m, err := c.member(id)
		if err != nil {
			errs[i] = err
			continue
		}
		wg.Go(func() { errs[i] = c.remove(ctx, m, path) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// remove deletes a copy from a node, which may hang at most Stall.
func (c *Cluster) remove(ctx context.Context, m *member, path string) error {
	_, err := within(ctx, c, c.Stall, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.driver.Delete(ctx, path)
	})
	c.blame(ctx, m, err)
	if err == nil {
		c.bad.Remove(badCopy{m.id, path})
	}
	return err
}

// member returns errcode.Unavailable for an unknown node.
func (c *Cluster) member(id string) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		return m, nil
	}
	return nil, errcode.Newf(errcode.Unavailable, "storage node %s is not configured", id)
}
