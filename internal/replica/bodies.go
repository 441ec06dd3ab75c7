package replica

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/internal/clock"
)

const (
	// uploads and largeUploads limit concurrent uploads. Large uploads need more memory, because their parts are
	// buffered.
	uploads      = 8
	largeUploads = 3
	largeBody    = 1 << 20

	// queued limits the queue. A reconciliation finds the bodies that do not fit.
	queued = 10_000

	// slack is how many finished entries may stay in bodies.entries before they are removed.
	slack = 1000
)

// bodies uploads a service's bodies. The database refers to a body only after the body got its number, so a
// restore point captured at number n needs all bodies up to n.
type bodies struct {
	r        *Replica
	services map[string]Bodies
	stop     context.CancelFunc
	running  sync.WaitGroup
	limit    int // queued, or another value in tests
	parallel int // concurrent uploads

	reconciling sync.Mutex
	record      record // nil before it is read

	mu      sync.Mutex
	changed chan struct{}     // closed when anything changes; nil: nobody waits
	isOpen  bool              // this process holds the target
	closed  bool              // read no more bodies
	last    uint64            // number of the last body
	entries []*entry          // unfinished and some finished bodies, by number
	small   []*entry          // queue of bodies up to largeBody
	large   []*entry          // queue of larger bodies
	largeUp int               // large uploads in progress
	waiting map[string]*entry // unfinished bodies by object
	sent    map[nameHash]bool // during a reconciliation: objects sent since it listed the target
	status  BodyStatus
	failed  error // the last upload's error
	stuck   error // the last reconciliation's error

	// The next reconciliation handles the bodies in owed, the current reconciliation handles those in owing.
	owed, owing debt
	missing     debt // found by the current reconciliation
	reconciled  time.Time
	took        time.Duration // the last reconciliation's duration
	noted       noted
}

// BodyStatus is the bodies' state, for metrics, the console and `holdfast check`.
type BodyStatus struct {
	Waiting      int64    // bodies that are not in the target yet
	WaitingBytes int64    // their size
	Unreadable   int64    // bodies that the service refers to and cannot read
	Names        []string // the first unreadable bodies, with the reason
	Omitted      []string // see Bodies.Each
	Error        error    // why bodies are late, or nil
}

// entry is a new body until it is uploaded.
type entry struct {
	number  uint64
	body    Body
	object  string // name without suffix
	settled bool   // the body's row is committed or never will be
	done    bool   // uploaded, or left to a reconciliation
}

// debt is work for a reconciliation. A point that needs bodies with this number or later waits for it.
type debt struct {
	isOpen       bool
	from         uint64 // number
	count, bytes int64
}

// add adds other work.
func (d *debt) add(o debt) {
	if !o.isOpen {
		return
	}
	if !d.isOpen || o.from < d.from {
		d.from = o.from
	}
	d.isOpen, d.count, d.bytes = true, d.count+o.count, d.bytes+o.bytes
}

// newBodies returns the bodies of a replica that was not started.
func newBodies(r *Replica) *bodies {
	b := &bodies{r: r, services: r.opts.Bodies, limit: queued, parallel: uploads, stop: func() {}, waiting: map[string]*entry{}}
	b.owed.isOpen = len(b.services) > 0 // the content of the target is unknown
	return b
}

// start uploads bodies as they are written, and reconciles.
func (b *bodies) start(ctx context.Context) {
	if len(b.services) == 0 {
		return
	}
	ctx, b.stop = context.WithCancel(ctx)
	b.watch()
	for range b.parallel {
		b.running.Go(func() { b.work(ctx, true) })
	}
	b.running.Go(func() { b.r.repeat(ctx, nil, b.reconcileIfDue) })
}

// close stops the workers, and uploads the rest until ctx is done.
func (b *bodies) close(ctx context.Context) error {
	b.stop()
	b.running.Wait()
	_, err := b.upload(ctx, b.lastNumber())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return err
}

// watch asks each service to report new bodies.
func (b *bodies) watch() {
	for _, name := range slices.Sorted(maps.Keys(b.services)) {
		b.services[name].Watch(func(body Body) func(bool) { return b.written(name, body) })
	}
}

// written records a new body; the service calls settled later.
func (b *bodies) written(service string, body Body) (settled func(kept bool)) {
	e := &entry{body: body, object: bodyName(service, body.Name)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e.number = b.last
	b.entries = append(b.entries, e)
	b.waiting[e.object] = e
	b.status.Waiting++
	b.status.WaitingBytes += body.Size
	return func(kept bool) { b.settle(e, kept) }
}

// settle queues the body if its row was committed, or leaves it to a reconciliation if the queue is full.
func (b *bodies) settle(e *entry, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.settled:
		return
	case !kept:
		b.end(e)
	case len(b.small)+len(b.large) >= b.limit:
		b.owe(e)
	default:
		b.push(e, false)
	}
	e.settled = true
}

// push, owe, end, tell, take, has and fail require the lock.
func (b *bodies) push(e *entry, first bool) {
	queue := &b.small
	if e.body.Size > largeBody {
		queue = &b.large
	}
	if first {
		*queue = slices.Insert(*queue, 0, e)
	} else {
		*queue = append(*queue, e)
	}
	b.tell()
}

// owe leaves a body to the next reconciliation, which finds it through its row.
func (b *bodies) owe(e *entry) {
	b.owed.add(debt{isOpen: true, from: e.number, count: 1, bytes: e.body.Size})
	b.end(e)
}

// end removes an entry, and the finished ones before it.
func (b *bodies) end(e *entry) {
	b.status.Waiting--
	b.status.WaitingBytes -= e.body.Size
	if b.waiting[e.object] == e {
		delete(b.waiting, e.object)
	}
	e.done, e.body = true, Body{}
	for len(b.entries) > 0 && b.entries[0].done {
		b.entries = b.entries[1:]
	}
	if len(b.entries) > 2*len(b.waiting)+slack {
		b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool { return e.done })
	}
	b.tell()
}

// tell wakes all callers of await.
func (b *bodies) tell() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// await waits for isReady, which it calls with the lock. It returns false if ctx is done first.
func (b *bodies) await(ctx context.Context, isReady func() bool) bool {
	for {
		b.mu.Lock()
		if isReady() {
			b.mu.Unlock()
			return true
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// open records whether this process holds the target: without it nothing is uploaded.
func (b *bodies) open(ours bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOpen = ours
	b.tell()
}

func (b *bodies) lastNumber() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// has reports whether the target contains all bodies up to a number.
func (b *bodies) has(number uint64) bool {
	for _, d := range []debt{b.owed, b.owing} {
		if d.isOpen && d.from <= number {
			return false
		}
	}
	return len(b.entries) == 0 || b.entries[0].number > number
}

// isReady is has with the lock.
func (b *bodies) isReady(number uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.has(number)
}

// wait waits an interval for all bodies up to a number.
func (b *bodies) wait(ctx context.Context, number uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.r.opts.Interval)
	defer cancel()
	return b.await(ctx, func() bool { return b.has(number) }), nil
}

// upload uploads all bodies up to a number, and reconciles if necessary. It returns false without an error if the
// bodies are closed.
func (b *bodies) upload(ctx context.Context, number uint64) (bool, error) {
	b.mu.Lock()
	done, closed := b.has(number), b.closed
	b.failed = nil
	b.mu.Unlock()
	if done || closed {
		return done, nil
	}
	for {
		if err := b.reconcileIfOwed(ctx); err != nil {
			return false, err
		}
		var running sync.WaitGroup
		for range b.parallel {
			running.Go(func() { b.work(ctx, false) })
		}
		running.Wait()
		b.mu.Lock()
		done, err := b.has(number), b.failed
		b.mu.Unlock()
		if done || err != nil || ctx.Err() != nil {
			return done, errors.Join(err, ctx.Err())
		}
		isReady := func() bool { return b.has(number) || b.owed.isOpen || len(b.small)+len(b.large) > 0 }
		if !b.await(ctx, isReady) {
			return false, ctx.Err()
		}
	}
}

// take returns the next body to upload, or nil. The older of the first small and the first large body goes first.
func (b *bodies) take() (e *entry) {
	isLarge := len(b.large) > 0 && b.largeUp < largeUploads && (len(b.small) == 0 || b.large[0].number < b.small[0].number)
	switch {
	case !b.isOpen:
		return nil
	case isLarge:
		e, b.large = b.large[0], b.large[1:]
		b.largeUp++
	case len(b.small) > 0:
		e, b.small = b.small[0], b.small[1:]
	}
	return e
}

// work ends when the queue is empty or the target fails, unless forever is set.
func (b *bodies) work(ctx context.Context, forever bool) {
	for failures := 0; ctx.Err() == nil; {
		var e *entry
		isReady := func() bool { e = b.take(); return e != nil || !forever }
		if !b.await(ctx, isReady) || e == nil {
			return
		}
		if err := b.uploadEntry(ctx, e); err == nil {
			failures = 0
			continue
		}
		if !forever {
			return
		}
		failures++
		clock.Sleep(ctx, b.r.opts.Interval<<min(failures, 5))
	}
}

// uploadEntry uploads a body, or puts it back at the front of its queue.
func (b *bodies) uploadEntry(ctx context.Context, e *entry) error {
	source, err := b.r.putBody(ctx, e.object, e.body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.body.Size > largeBody {
		b.largeUp--
	}
	switch {
	case source != nil && ctx.Err() == nil: // deleted, moved or lost; the body's row decides which
		b.owe(e)
	case source != nil || err != nil:
		b.push(e, true)
		b.fail(ctx, errors.Join(source, err))
		return errors.Join(source, err)
	default:
		b.failed = nil
		if b.sent != nil {
			b.sent[hashOf(e.object+b.r.keys.suffix())] = true
		}
		b.end(e)
	}
	return nil
}

// fail records an error, and logs the first.
func (b *bodies) fail(ctx context.Context, err error) {
	if b.failed == nil && ctx.Err() == nil {
		b.r.opts.Log.Warn("replica is late: cannot upload", "error", err)
	}
	b.failed = err
}

// putBody returns read errors in source, and errors of the target in err.
func (r *Replica) putBody(ctx context.Context, object string, body Body) (source, err error) {
	if err := r.opts.Fault("send body"); err != nil {
		return nil, err
	}
	from, err := body.Open(ctx)
	if err != nil {
		return err, nil
	}
	content := &guarded{r: from}
	defer func() { _ = content.Close() }()
	packed, err := pack(content)
	if err != nil {
		return err, nil
	}
	defer packed.Close()
	err = r.put(ctx, object+r.keys.suffix(), r.keys, io.Reader(packed), body.Size)
	if failed := content.failed(); failed != nil {
		return failed, nil
	}
	if err == nil {
		err = r.opts.Fault("sent body")
	}
	return nil, err
}

// state returns the status.
func (b *bodies) state() BodyStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	// The owed bodies include the missing bodies.
	s.Waiting += b.owed.count + max(b.owing.count, b.missing.count)
	s.WaitingBytes += b.owed.bytes + max(b.owing.bytes, b.missing.bytes)
	s.Error = errors.Join(b.failed, b.stuck)
	return s
}
