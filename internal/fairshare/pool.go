// Package fairshare shares a bounded resource among clients, e.g. request slots, memory, streams, or calls to
// other servers.
//
// A client's fair share is the capacity divided by the number of clients that use or wait for the pool. Below its
// share, a client gets any free units. Above it, a client gets units only while nobody waits and the reserve stays
// free, so a single client may use everything except the reserve. Units are never taken back, so new clients
// depend on the reserve.
package fairshare

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"holdfast/internal/errcode"
)

// ErrFull means that units did not become free in time, or that too many calls wait.
var ErrFull = errcode.New(errcode.Unavailable, "the server is overloaded: retry later")

// Options configure a Pool; see NewPool.
type Options struct {
	Capacity int64         // units in the pool, at least 1
	Reserve  int64         // units that a client above its share leaves free, less than Capacity; New uses the function Reserve
	Waiting  int           // calls of Acquire that may wait at once; more are refused, first those of the client with most. 0: none
	Wait     time.Duration // how long a call of Acquire waits; 0: not at all

	// Hung, if set, reports whether the resource hangs, so that no units become free. Each wait polls it every third of
	// HungWait, and while it is true, ends HungWait after the wait began. It is called concurrently and must not block.
	Hung     func() bool
	HungWait time.Duration // at most Wait; used only with Hung
}

// Reserve returns the default reserve: an eighth of the capacity, at least 1 for a capacity of 2 or more.
func Reserve(capacity int64) int64 { return min(capacity-1, (capacity+7)/8) }

// Pool is a bounded resource. It is safe for concurrent use.
type Pool struct {
	options Options

	mu      sync.Mutex
	used    int64              // units that clients hold
	peak    int64              // most used units since TakePeak
	clients map[string]*client // those with units or waiters
	queued  []*client          // clients with waiters
	waiting int                // waiters, all clients together
	refused int64              // calls since the start
	arrived uint64             // numbers waiters
	virtual int64              // start of the latest grant in virtual time
	idle    []*client          // for reuse

	waiters sync.Pool // for reuse
}

type client struct {
	name   string
	used   int64     // units
	finish int64     // when the client's last units are paid, in virtual time
	queue  []*waiter // oldest first
}

// start returns the virtual time at which a client's next grant starts: later if it recently got many units
// (start-time fair queueing).
func (p *Pool) start(c *client) int64 { return max(c.finish, p.virtual) }

type waiter struct {
	n       int64     // units requested, then granted
	some    bool      // accepts fewer units if the client has none
	arrived uint64    // order among all waiters
	done    chan bool // true: granted; false: refused
	timer   *time.Timer
}

// New returns a pool with the default reserve and a capacity of at least 1. At most waiting calls of Acquire wait,
// each up to wait; see Options. A unit is whatever the caller counts, e.g. a request slot or a byte. A single client gets
// at most capacity - Reserve(capacity) units by several calls, so 1 of 2.
func New(capacity int64, waiting int, wait time.Duration) *Pool {
	capacity = max(capacity, 1)
	return NewPool(Options{Capacity: capacity, Reserve: Reserve(capacity), Waiting: waiting, Wait: wait})
}

// NewPool returns a pool with a custom reserve, or with Hung. It does not correct the options: without a Capacity, every call
// is refused.
func NewPool(o Options) *Pool {
	return &Pool{options: o, clients: map[string]*client{}}
}

// Acquire takes n units, at least 1, for the client name, which must then Release them under the same name. It waits if
// they are not free. It returns ErrFull if they do not become free in time, if too many calls wait, or at once if n is
// above the capacity; and the cause of ctx if that ends first. Free units are granted even if ctx is done. A client that
// waits for more units than it can get besides those it holds waits in vain, because units are never taken back.
//
// Free units go to the waiting client that holds fewest, then to the client that recently got fewest, then to the client
// that has waited longest. A client's calls get them in the order of the calls. A call for more units than are free
// holds up the calls behind it, so that it gets its units at last.
//
// Clients with the same name share; name is unique among the pool's clients, e.g. "sync 17", and "" is a client, too. n
// is not checked: below 1 it spoils the counters.
func (p *Pool) Acquire(ctx context.Context, name string, n int64) error {
	_, err := p.acquire(ctx, name, n, false)
	return err
}

// acquireSome takes n units. If the client has none, it accepts fewer, but at least the reserve, so that a new
// client does not wait for clients that use the rest.
func (p *Pool) acquireSome(ctx context.Context, name string, n int64) (int64, error) {
	return p.acquire(ctx, name, n, true)
}

// acquire is Acquire, and acquireSome if some is true. It returns the number of granted units.
func (p *Pool) acquire(ctx context.Context, name string, n int64, some bool) (int64, error) {
	n, w, wait := p.enter(name, n, some)
	if w == nil {
		return n, nil
	}
	granted := p.await(ctx, name, w, wait)
	n = w.n
	p.waiters.Put(w)
	if granted {
		// Let goroutines whose connections became readable run first. Otherwise a client with many waiting requests would
		// delay unread requests from other clients.
		runtime.Gosched()
		return n, nil
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return 0, ErrFull
}

// await waits until the waiter is granted or refused, ctx ends, or the wait is over.
func (p *Pool) await(ctx context.Context, name string, w *waiter, wait time.Duration) (granted bool) {
	begun, step := time.Now(), wait
	if p.options.Hung != nil {
		step = min(step, max(1, (p.options.HungWait+2)/3)) // three steps cover the wait
	}
	w.timer.Reset(step)
	defer w.timer.Stop()
	for {
		select {
		case granted = <-w.done:
			return granted
		case <-ctx.Done():
			return p.leave(name, w)
		case <-w.timer.C:
		}
		waited := time.Since(begun)
		if waited >= wait || p.options.Hung != nil && p.options.Hung() && waited >= p.options.HungWait {
			return p.leave(name, w)
		}
		w.timer.Reset(min(step, wait-waited))
	}
}

// Do calls fn while it holds a unit for the client name, and gives it back even if fn panics. It returns the errors of
// Acquire, and of fn. A nil *Pool has no limit; no other method accepts it.
func (p *Pool) Do(ctx context.Context, name string, fn func() error) error {
	if p == nil {
		return fn()
	}
	if err := p.Acquire(ctx, name, 1); err != nil {
		return err
	}
	defer p.Release(name, 1)
	return fn()
}

// TryAcquire takes n units as Acquire does, if it need not wait for them; the caller must then Release them. A failure does
// not count as refused: the caller then calls Acquire or does without the units.
func (p *Pool) TryAcquire(name string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.client(name)
	ok := p.mayTake(c, n)
	if ok {
		p.take(c, n)
	}
	p.forget(c)
	return ok
}

// Move charges n units that from holds to another client, which may exceed its share and must then Release them. It never
// waits, and panics if from holds fewer. 0 units, and equal names, change nothing.
func (p *Pool) Move(from, to string, n int64) {
	if n == 0 || from == to {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.client(to).used += n
	p.used += n
	p.giveBack(from, n)
}

// Release gives back n units that the client acquired, possibly in parts and from another goroutine. It panics if the
// client holds fewer. Waiting calls then get them. 0 units change nothing.
func (p *Pool) Release(name string, n int64) { p.releaseFor(name, n, 0) }

// releaseFor is Release for a client that used more than it took: its next grant starts later by more units.
func (p *Pool) releaseFor(name string, n, more int64) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clients[name]; c != nil {
		c.finish += more
	}
	p.giveBack(name, n)
}

// giveBack releases units. The caller holds the lock, as for all functions below that have no lock of their own.
func (p *Pool) giveBack(name string, n int64) {
	c := p.clients[name]
	if c == nil || c.used < n {
		panic("fairshare: released more than was acquired")
	}
	c.used -= n
	p.used -= n
	p.forget(c)
	p.grant()
}

// enter takes units, or returns a waiter in the queue and how long it waits.
func (p *Pool) enter(name string, n int64, some bool) (int64, *waiter, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.client(name)
	if n := p.amount(c, n, some); p.mayTake(c, n) {
		p.take(c, n)
		return n, nil, 0
	}
	p.arrived++
	w := p.waiter()
	w.n, w.some, w.arrived = n, some, p.arrived
	if n > p.options.Capacity {
		p.refuse(w)
		p.forget(c)
		return 0, w, 0
	}
	if len(c.queue) == 0 {
		p.queued = append(p.queued, c)
	}
	c.queue = append(c.queue, w)
	p.waiting++
	if p.waiting > p.options.Waiting {
		p.refuseOne()
	}
	return 0, w, p.options.Wait
}

// Resize changes the arguments of New, and sets the reserve to the default; Options.Hung stays. Clients keep the units
// that they hold, even if these exceed the new capacity. Waiters that could never get their units are refused; the others
// keep their old wait.
func (p *Pool) Resize(capacity int64, waiting int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	capacity = max(capacity, 1)
	p.options.Capacity, p.options.Reserve, p.options.Waiting, p.options.Wait = capacity, Reserve(capacity), waiting, wait
	for _, c := range slices.Clone(p.queued) {
		for i, w := range slices.Backward(c.queue) {
			if w.n > capacity {
				p.dequeue(c, i)
				p.refuse(w)
			}
		}
	}
	for p.waiting > p.options.Waiting {
		p.refuseOne()
	}
	p.grant()
}

// amount returns how many units a call takes now; see acquireSome.
func (p *Pool) amount(c *client, n int64, some bool) int64 {
	if !some || c.used > 0 {
		return n
	}
	free := p.options.Capacity - p.used
	return min(n, max(free, p.options.Reserve, 1))
}

// waiter returns a waiter with a stopped timer, reused if possible.
func (p *Pool) waiter() *waiter {
	if w, ok := p.waiters.Get().(*waiter); ok {
		return w
	}
	w := &waiter{done: make(chan bool, 1), timer: time.NewTimer(p.options.Wait)}
	w.timer.Stop()
	return w
}

// leave removes a waiter whose wait is over. It may have been granted or refused in the meantime; then that counts.
func (p *Pool) leave(name string, w *waiter) (granted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clients[name]; c != nil {
		if i := slices.Index(c.queue, w); i >= 0 {
			p.dequeue(c, i)
			p.refused++
			p.grant()
			return false
		}
	}
	return <-w.done
}

// refuseOne rejects the newest waiter of the client with the most waiters, so that one client cannot fill the queue.
func (p *Pool) refuseOne() {
	busiest := p.queued[0]
	for _, c := range p.queued[1:] {
		if len(c.queue) > len(busiest.queue) || len(c.queue) == len(busiest.queue) && last(c).arrived > last(busiest).arrived {
			busiest = c
		}
	}
	w := last(busiest)
	p.dequeue(busiest, len(busiest.queue)-1)
	p.refuse(w)
}

func last(c *client) *waiter { return c.queue[len(c.queue)-1] }

// grant gives free units to the waiting client that uses fewest, then that recently got fewest, then that has
// waited longest. A waiter that needs more units than are free blocks the others, so that its turn comes.
func (p *Pool) grant() {
	for len(p.queued) > 0 {
		next := p.queued[0]
		for _, c := range p.queued[1:] {
			if cmp.Or(cmp.Compare(c.used, next.used), cmp.Compare(p.start(c), p.start(next)), cmp.Compare(c.queue[0].arrived, next.queue[0].arrived)) < 0 {
				next = c
			}
		}
		w := next.queue[0]
		n := p.amount(next, w.n, w.some)
		if !p.fits(next, n) {
			return
		}
		w.n = n
		p.take(next, n)
		p.dequeue(next, 0)
		w.done <- true
	}
}

// mayTake reports whether a client gets n units without waiting. Above its share, it waits behind the others.
func (p *Pool) mayTake(c *client, n int64) bool {
	return len(c.queue) == 0 && p.fits(c, n) && (p.waiting == 0 || p.withinShare(c, n))
}

// fits reports whether n units are free for the client: beyond the reserve, or within its share.
func (p *Pool) fits(c *client, n int64) bool {
	free := p.options.Capacity - p.used - n
	return free >= p.options.Reserve || free >= 0 && p.withinShare(c, n)
}

// withinShare reports whether n more units are within a client's share. A client without units may take any
// number.
func (p *Pool) withinShare(c *client, n int64) bool {
	share := min(p.options.Capacity/int64(len(p.clients)), p.options.Capacity-p.options.Reserve)
	return c.used == 0 || c.used+n <= share
}

// client returns a client, which it adds if necessary: call take or forget afterwards.
func (p *Pool) client(name string) *client {
	c := p.clients[name]
	if c != nil {
		return c
	}
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		c = &client{}
	}
	c.name, c.finish = name, 0
	p.clients[name] = c
	return c
}

// maxIdle is how many unused client structs are kept.
const maxIdle = 64

// forget drops a client without units and waiters, so that it no longer counts for the others' shares.
func (p *Pool) forget(c *client) {
	if c.used > 0 || len(c.queue) > 0 {
		return
	}
	delete(p.clients, c.name)
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, c)
	}
}

// take gives n units to the client.
func (p *Pool) take(c *client, n int64) {
	p.virtual = p.start(c)
	c.finish = p.virtual + n
	c.used += n
	p.used += n
	p.peak = max(p.peak, p.used)
}

// dequeue removes the client's waiter i.
func (p *Pool) dequeue(c *client, i int) {
	c.queue = slices.Delete(c.queue, i, i+1)
	p.waiting--
	if len(c.queue) == 0 {
		i := slices.Index(p.queued, c)
		end := len(p.queued) - 1
		p.queued[i] = p.queued[end]
		p.queued = p.queued[:end]
	}
	p.forget(c)
}

// refuse ends a waiter that is not in the queue.
func (p *Pool) refuse(w *waiter) {
	p.refused++
	w.done <- false
}

// Stats is a pool's state.
type Stats struct {
	Capacity int64
	Used     int64 // units
	Clients  int   // with units or waiters
	Waiting  int   // calls of Acquire
	Refused  int64 // calls of Acquire that failed since the start, also because their context ended
}

// Stats returns the state now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{p.options.Capacity, p.used, len(p.clients), p.waiting, p.refused}
}

// TakePeak returns the most used units since the last call, for metrics. Two callers would take each other's peaks.
func (p *Pool) TakePeak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	peak := p.peak
	p.peak = p.used
	return peak
}

// Load adds the used share of the capacity and the used share of the queue. It is 0 if the pool is idle and 1 if it is
// full; at 2, requests are rejected. Without a queue (Waiting 0), it is at most 1. After a Resize to a smaller capacity it
// may be above these limits for a while.
func (p *Pool) Load() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	load := float64(p.used) / float64(p.options.Capacity)
	if p.options.Waiting > 0 {
		load += float64(p.waiting) / float64(p.options.Waiting)
	}
	return load
}
