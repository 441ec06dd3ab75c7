package fairshare

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Turns limits the requests that use a database, and the work they are expected to cause, so that other clients
// wait only briefly. A request takes a unit, or several if the client's similar requests were expensive, so
// expensive requests delay the client that sends them. Turns is safe for concurrent use.
type Turns struct {
	pool     *Pool
	unit     time.Duration // work that a unit stands for
	maxUnits int64         // units for a request with unknown or high cost

	mu    sync.Mutex
	costs *simplelru.LRU[costKey, *cost] // by client and kind, least recently used dropped
	kinds map[Kind]*cost                 // by kind, all clients together; a fixed set
}

// Kind identifies requests of similar cost. Route must come from a small fixed set, because costs are kept for each
// kind for ever. Costs for each client and kind are kept for the 16,384 pairs that were used last.
type Kind struct{ Method, Route string }

type costKey struct {
	client string
	kind   Kind
}

const (
	// workInFlight is the expected work in progress per processor, and so roughly another client's wait.
	workInFlight = 40 * time.Millisecond

	// inFlight is the number of expensive requests in progress per processor: one works while the next is ready.
	inFlight = 2

	// maxCosts is how many pairs of client and kind are remembered.
	maxCosts = 1 << 14
)

// Patience limits the wait for a turn.
type Patience struct {
	Wait time.Duration // how long a request waits for its turn; 0: not at all

	// Hung, if set, reports without blocking whether the database hangs.
	Hung     func() bool
	HungWait time.Duration // how long it waits while Hung returns true
}

// NewTurns returns Turns with capacity units, for a database that serves as many cheap requests concurrently, e.g. its
// connection pool's size, with this number of processors. Both count as 1 if they are lower. A request takes at most so
// many units that two expensive requests per processor fit, at least 1. Any number of requests may wait, because a gate
// in front limits them.
func NewTurns(capacity int64, processors int, p Patience) *Turns {
	capacity, processors = max(capacity, 1), max(processors, 1)
	costs, err := simplelru.NewLRU[costKey, *cost](maxCosts, nil)
	if err != nil {
		panic(err)
	}
	return &Turns{
		pool: NewPool(Options{
			Capacity: capacity, Reserve: Reserve(capacity), Waiting: math.MaxInt,
			Wait: p.Wait, Hung: p.Hung, HungWait: p.HungWait,
		}),
		unit:     max(1, workInFlight*time.Duration(processors)/time.Duration(capacity)),
		maxUnits: max(1, capacity/int64(inFlight*processors)),
		costs:    costs, kinds: map[Kind]*cost{},
	}
}

// Turn is a request's permission to use the database, from Acquire to Release. Copies are the same turn; the zero value
// permits nothing and must not be released.
type Turn struct {
	client string
	units  int64
	cost   *cost
	kind   Kind
}

// Acquire waits for a turn, which the caller must Release exactly once. client is a unique name, as for Pool.Acquire. With
// an error of Pool.Acquire there is no turn, and nothing to release.
func (t *Turns) Acquire(ctx context.Context, client string, kind Kind) (Turn, error) {
	turn := Turn{client: client, kind: kind}
	turn.cost, turn.units = t.expect(client, kind)
	var err error
	if turn.units, err = t.pool.acquireSome(ctx, client, turn.units); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		turn.cost.running--
	}
	return turn, err
}

// Release ends a turn. worked is the work that the request caused in the database (package work measures it), not the time
// that it waited; later turns for similar requests cost accordingly. 0 or less counts as a microsecond. A turn that was
// released already panics if the client holds no other units, and otherwise takes units from its other turns.
func (t *Turns) Release(turn Turn, worked time.Duration) {
	t.pool.releaseFor(turn.client, turn.units, max(0, int64(worked/t.unit)-turn.units))
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	turn.cost.running--
	turn.cost.add(now, worked)
	all := t.kinds[turn.kind]
	if all == nil {
		all = &cost{}
		t.kinds[turn.kind] = all
	}
	all.add(now, worked)
}

// Stats returns the state in units.
func (t *Turns) Stats() Stats { return t.pool.Stats() }

// expect returns the units for a request. A client's first request takes as many as other clients'. Until it ends,
// further requests take the maximum, so that a new client cannot start many expensive requests at once.
func (t *Turns) expect(client string, kind Kind) (c *cost, units int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := costKey{client, kind}
	c, ok := t.costs.Get(key)
	if !ok {
		c = &cost{}
		t.costs.Add(key, c)
	}
	known := c
	if c.sum == 0 && c.running == 0 {
		known = t.kinds[kind]
	}
	c.running++
	return c, t.units(known)
}

// units returns how many units a request with this expected cost takes.
func (t *Turns) units(c *cost) int64 {
	if c == nil || c.sum == 0 {
		return t.maxUnits
	}
	return min(max(1, int64(math.Round(c.expected()/t.unit.Seconds()))), t.maxUnits)
}

// cost describes recent requests of a kind.
type cost struct {
	running      int     // requests with a turn
	sum, squares float64 // work in seconds; older requests weigh less
	at           time.Time
}

const (
	// halfLife is the age at which a request counts half.
	halfLife = 4 * time.Second
	// leastWeight keeps a client's sums above 0 after a long idle time.
	leastWeight = 1.0 / 1024
	leastWork   = time.Microsecond
)

// add records a request's work.
func (c *cost) add(now time.Time, worked time.Duration) {
	age := max(0, now.Sub(c.at))
	weight := max(math.Exp2(-float64(age)/float64(halfLife)), leastWeight)
	s := max(worked, leastWork).Seconds()
	c.sum, c.squares, c.at = c.sum*weight+s, c.squares*weight+s*s, now
}

// expected returns the mean weighted by work, i.e. the expected work of a request in progress. So clients cannot
// hide expensive requests among cheap requests, and rare outliers change little.
func (c *cost) expected() float64 { return c.squares / c.sum }
