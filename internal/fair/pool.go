// Package fair shares a bounded resource among clients: slots for requests, bytes of
// memory, streams, calls to other servers.
//
// A single client may use all of a pool except its reserve. The fair share of a client
// is the capacity divided by the number of clients that use the pool or wait for it. A
// client above its share gets more only while nobody waits and the reserve is free; a
// client below its share gets what is free. Units are never taken back, so the reserve
// is what new clients find while others use the rest.
package fair

import (
	"context"
	"runtime"
	"sync"
	"time"

	"holdfast/internal/fault"
)

// ErrFull means that the units did not become free in time. It is fault.Unavailable.
var ErrFull = fault.New(fault.Unavailable, "the server is overloaded: retry later")

// Options configure a pool.
type Options struct {
	Capacity int64         // in units of the resource, above 0
	Reserve  int64         // units that a client above its share leaves free; less than Capacity
	Waiting  int           // maximum number of waiting acquisitions
	Wait     time.Duration // maximum wait of an acquisition
}

// Reserve returns the default reserve of a pool: an eighth of its capacity, and at
// least one unit if the capacity is two or more.
func Reserve(capacity int64) int64 { return min(capacity-1, (capacity+7)/8) }

// Pool is a bounded resource. It is safe for concurrent use.
type Pool struct {
	options Options

	mu      sync.Mutex
	used    int64
	peak    int64
	clients map[string]*client // that use units or wait for them
	waiting int
	refused int64
	arrived uint64
}

// client is the state of one client.
type client struct {
	used  int64
	queue []*waiter // in the order of arrival
}

// waiter is a waiting acquisition.
type waiter struct {
	n       int64
	arrived uint64
	done    chan struct{} // closed when it is granted or refused
	granted bool          // valid once done is closed
}

// New returns a pool of capacity units, at least one, with the default reserve. At
// most waiting acquisitions wait at a time, each at most as long as wait.
func New(capacity int64, waiting int, wait time.Duration) *Pool {
	capacity = max(capacity, 1)
	return NewPool(Options{Capacity: capacity, Reserve: Reserve(capacity), Waiting: waiting, Wait: wait})
}

// NewPool returns a pool with the given reserve.
func NewPool(o Options) *Pool {
	return &Pool{options: o, clients: map[string]*client{}}
}

// Acquire takes n units for a client, which must call Release. It waits as long as the
// pool allows. The errors are ErrFull, also for more units than the capacity, and the
// cause of ctx.
func (p *Pool) Acquire(ctx context.Context, name string, n int64) error {
	w := p.enter(name, n)
	if w == nil {
		return nil
	}
	timer := time.NewTimer(p.options.Wait)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		p.leave(name, w)
	case <-ctx.Done():
		p.leave(name, w)
	}
	<-w.done
	if w.granted {
		// A goroutine that wakes up runs before those whose connections have become
		// readable. Without this a client with many waiting requests would delay requests of
		// others that have not been read yet.
		runtime.Gosched()
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return ErrFull
}

// Do calls fn while the client has a unit. A nil pool is unlimited.
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

// TryAcquire takes n units if they are free. A failure is not counted as refused: the
// caller calls Acquire then, or continues without.
func (p *Pool) TryAcquire(name string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.client(name)
	ok := p.mayTake(c, n)
	if ok {
		p.take(c, n)
	}
	p.forget(name, c)
	return ok
}

// Move charges n units of one client to another, which may then exceed its share.
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

// Release returns n units of a client.
func (p *Pool) Release(name string, n int64) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveBack(name, n)
}

func (p *Pool) giveBack(name string, n int64) {
	c := p.clients[name]
	if c == nil || c.used < n {
		panic("fair: released more than was acquired")
	}
	c.used -= n
	p.used -= n
	p.forget(name, c)
	p.grant()
}

// enter takes n units, or returns a waiter, which may have been refused already.
func (p *Pool) enter(name string, n int64) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.client(name)
	if p.mayTake(c, n) {
		p.take(c, n)
		return nil
	}
	p.arrived++
	w := &waiter{n: n, arrived: p.arrived, done: make(chan struct{})}
	if n > p.options.Capacity {
		p.refuse(w)
		p.forget(name, c)
		return w
	}
	c.queue = append(c.queue, w)
	p.waiting++
	if p.waiting > p.options.Waiting {
		p.refuseOne()
	}
	return w
}

// leave removes a waiter that has given up, unless it was granted.
func (p *Pool) leave(name string, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[name]
	if c == nil {
		return
	}
	for i, q := range c.queue {
		if q == w {
			p.dequeue(name, c, i)
			p.refuse(w)
			p.grant() // it may have blocked the waiters behind it
			return
		}
	}
}

// refuseOne rejects the newest waiter of the client with the most waiters, so that one
// client cannot fill the queue.
func (p *Pool) refuseOne() {
	var most *client
	var name string
	for n, c := range p.clients {
		if most == nil || len(c.queue) > len(most.queue) ||
			len(c.queue) == len(most.queue) && len(c.queue) > 0 && last(c).arrived > last(most).arrived {
			most, name = c, n
		}
	}
	w := last(most)
	p.dequeue(name, most, len(most.queue)-1)
	p.refuse(w)
}

func last(c *client) *waiter { return c.queue[len(c.queue)-1] }

// grant gives free units to waiters: first to the client that uses least, and of those
// to the one that has waited longest. A waiter that needs more than is free blocks
// those behind it, so that it gets its turn.
func (p *Pool) grant() {
	for p.waiting > 0 {
		var next *client
		var name string
		for n, c := range p.clients {
			if len(c.queue) == 0 {
				continue
			}
			if next == nil || c.used < next.used || c.used == next.used && c.queue[0].arrived < next.queue[0].arrived {
				next, name = c, n
			}
		}
		w := next.queue[0]
		if !p.fits(next, w.n) {
			return
		}
		p.dequeue(name, next, 0)
		p.take(p.client(name), w.n)
		w.granted = true
		close(w.done)
	}
}

// mayTake reports whether a client may take n units now. Above its share it waits
// behind the waiters.
func (p *Pool) mayTake(c *client, n int64) bool {
	return len(c.queue) == 0 && p.fits(c, n) && (p.waiting == 0 || p.withinShare(c, n))
}

// fits reports whether n more units are free for a client.
func (p *Pool) fits(c *client, n int64) bool {
	free := p.options.Capacity - p.used - n
	return free >= p.options.Reserve || free >= 0 && p.withinShare(c, n)
}

// withinShare reports whether a client would have at most its share with n more
// units. A client that has nothing may have any number.
func (p *Pool) withinShare(c *client, n int64) bool {
	share := min(p.options.Capacity/int64(len(p.clients)), p.options.Capacity-p.options.Reserve)
	return c.used == 0 || c.used+n <= share
}

// client returns the state of a client and creates it if there is none. The caller
// calls forget or take.
func (p *Pool) client(name string) *client {
	c := p.clients[name]
	if c == nil {
		c = &client{}
		p.clients[name] = c
	}
	return c
}

// forget removes the state of a client that uses nothing and waits for nothing.
func (p *Pool) forget(name string, c *client) {
	if c.used == 0 && len(c.queue) == 0 {
		delete(p.clients, name)
	}
}

func (p *Pool) take(c *client, n int64) {
	c.used += n
	p.used += n
	p.peak = max(p.peak, p.used)
}

func (p *Pool) dequeue(name string, c *client, i int) {
	c.queue = append(c.queue[:i], c.queue[i+1:]...)
	p.waiting--
	p.forget(name, c)
}

func (p *Pool) refuse(w *waiter) {
	p.refused++
	close(w.done)
}

// Stats is the state of a pool.
type Stats struct {
	Capacity int64
	Used     int64
	Clients  int   // that use units or wait for them
	Waiting  int   // acquisitions
	Refused  int64 // acquisitions by Acquire so far
}

// Stats returns the state of the pool.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{p.options.Capacity, p.used, len(p.clients), p.waiting, p.refused}
}

// TakePeak returns the maximum of used units since the last call.
func (p *Pool) TakePeak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	peak := p.peak
	p.peak = p.used
	return peak
}

// Load is the used share of the capacity plus the used share of the queue: 0 is idle,
// 1 is full, 2 means that requests are rejected.
func (p *Pool) Load() float64 {
	s := p.Stats()
	load := float64(s.Used) / float64(s.Capacity)
	if p.options.Waiting > 0 {
		load += float64(s.Waiting) / float64(p.options.Waiting)
	}
	return load
}
