package fairshare

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Turns limits how many requests use a database at once, and how much work they are
// expected to do there, so that a request of another client never waits for more than
// that. A request takes one unit of a pool, and more if requests like it were
// expensive: an expensive request of a client makes its others wait, not those of its
// neighbours. It is safe for concurrent use.
type Turns struct {
	pool *Pool
	unit time.Duration // work for which a request takes a unit
	most int64         // units of a request

	mu    sync.Mutex
	costs *simplelru.LRU[costKey, *cost]
	kinds map[Kind]*cost // of all clients
}

// Kind is a kind of requests of similar cost: a method and a route.
type Kind struct{ Method, Route string }

// costKey names the requests that a client sends of a kind.
type costKey struct {
	client string
	kind   Kind
}

const (
	// workInFlight is the work for each processor that requests with a turn are expected to
	// do: the time that a request of another client waits for them.
	workInFlight = 40 * time.Millisecond

	// inFlight is the number of expensive requests for each processor that may have a turn:
	// one works, and another one is ready when it ends.
	inFlight = 2

	// maxCosts is the number of clients and kinds whose costs are known.
	maxCosts = 1 << 14
)

// Patience limits the wait for a turn.
type Patience struct {
	Wait time.Duration

	// Hung, if set, reports whether the database does not answer. It must not block. A request then waits for
	// HungWait only.
	Hung     func() bool
	HungWait time.Duration
}

// NewTurns returns turns for a database that serves capacity requests at once, on a
// machine with so many processors. Requests wait without a limit of their number.
func NewTurns(capacity int64, processors int, p Patience) *Turns {
	capacity, processors = max(capacity, 1), max(processors, 1)
	costs, err := simplelru.NewLRU[costKey, *cost](maxCosts, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Turns{
		pool: NewPool(Options{
			Capacity: capacity, Reserve: Reserve(capacity), Waiting: math.MaxInt,
			Wait: p.Wait, Hung: p.Hung, HungWait: p.HungWait,
		}),
		unit:  max(1, workInFlight*time.Duration(processors)/time.Duration(capacity)),
		most:  max(1, capacity/int64(inFlight*processors)),
		costs: costs, kinds: map[Kind]*cost{},
	}
}

// Turn is the turn of a request.
type Turn struct {
	client string
	units  int64
	cost   *cost // of the client's requests of this kind
	kind   Kind
}

// Acquire waits for the turn of a client's request. The caller must Release it. The
// errors are those of Pool.Acquire.
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

// Release ends a turn. worked is the work that the request did.
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

// Stats returns the state of the pool, in units.
func (t *Turns) Stats() Stats { return t.pool.Stats() }

// expect returns the cost of a client's requests of a kind, and the units of the next.
//
// The first request of a client takes as many as those of other clients, and the next
// ones as many as possible until the first has ended: otherwise a client with many
// concurrent requests would be cheap until it is known.
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

// units returns the units of requests of a cost, which may be nil.
func (t *Turns) units(c *cost) int64 {
	if c == nil || c.sum == 0 {
		return t.most
	}
	return min(max(1, int64(math.Round(c.expected()/t.unit.Seconds()))), t.most)
}

// cost is what requests of a kind cost lately.
type cost struct {
	running      int
	sum, squares float64 // of the work of requests in seconds; older requests weigh less
	at           time.Time
}

const (
	// halfLife is the time after which a request weighs half as much.
	halfLife = 4 * time.Second
	// leastWeight keeps the sums of a client that was idle for long above 0.
	leastWeight = 1.0 / 1024
	leastWork   = time.Microsecond
)

// add adds a request.
func (c *cost) add(now time.Time, worked time.Duration) {
	age := max(0, now.Sub(c.at))
	weight := max(math.Exp2(-float64(age)/float64(halfLife)), leastWeight)
	s := max(worked, leastWork).Seconds()
	c.sum, c.squares, c.at = c.sum*weight+s, c.squares*weight+s*s, now
}

// expected returns how much work the request does that is found at a random moment: the
// mean that weighs each request by its work. A client cannot hide expensive requests
// among many cheap ones, and a rare outlier changes little.
func (c *cost) expected() float64 { return c.squares / c.sum }
