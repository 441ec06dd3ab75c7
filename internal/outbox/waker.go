package outbox

import (
	"context"
	"slices"
	"sync"
)

// Waker notifies the relay about its process's new events.
type Waker struct {
	mu      sync.Mutex
	pending [Partitions]pending // by partition
	parts   Parts               // partitions with pending events
	signal  chan struct{}       // capacity 1; has a value after events were reported
}

type pending struct {
	all    bool // owners are unknown
	owners []string
}

// maxOwners limits the owners that are queried individually (one Citus node each). Above it, partitions are
// queried.
const maxOwners = 8

// NewWaker returns a Waker without pending events.
func NewWaker() *Waker { return &Waker{signal: make(chan struct{}, 1)} }

// Wake reports a stream's committed events. It never blocks. A nil Waker ignores it.
func (w *Waker) Wake(owner, stream string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.add(Partition(owner, stream), owner)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Waking returns a box that wakes the process's relay when an event is requeued.
func Waking(box Retaining, w *Waker) Retaining { return &waking{box, w} }

type waking struct {
	Retaining
	waker *Waker
}

func (b *waking) RetryDead(ctx context.Context, id ID) (bool, error) {
	found, err := b.Retaining.RetryDead(ctx, id)
	if found {
		b.waker.Wake(id.Owner, id.Stream)
	}
	return found, err
}

// wakeAll reports events of unknown owners.
func (w *Waker) wakeAll(parts Parts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range parts.All() {
		w.addAll(p)
	}
}

// add and addAll require mu.
func (w *Waker) add(part int, owner string) {
	w.parts |= PartsOf(part)
	p := &w.pending[part]
	if p.all || slices.Contains(p.owners, owner) {
		return
	}
	if len(p.owners) == maxOwners {
		w.addAll(part)
		return
	}
	p.owners = append(p.owners, owner)
}

func (w *Waker) addAll(part int) {
	w.parts |= PartsOf(part)
	w.pending[part] = pending{all: true}
}

// waiting returns the partitions with pending events.
func (w *Waker) waiting() Parts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parts
}

// taken holds pending events that a relay took from the Waker, by partition.
type taken map[int]pending

// take removes and returns the pending events of some partitions.
func (w *Waker) take(parts Parts) taken {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := taken{}
	for p := range (parts & w.parts).All() {
		t[p], w.pending[p] = w.pending[p], pending{}
	}
	w.parts &^= parts
	return t
}

// putBack restores taken events, after a failure.
func (w *Waker) putBack(t taken, parts Parts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range parts.All() {
		was := t[p]
		if was.all {
			w.addAll(p)
		}
		for _, owner := range was.owners {
			w.add(p, owner)
		}
	}
}

// owners returns the owners with new events, or nil if they may have any owner.
func (t taken) owners(parts Parts) (owners []string) {
	for p := range parts.All() {
		was, ok := t[p]
		if !ok || was.all {
			return nil
		}
		for _, owner := range was.owners {
			if !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	if len(owners) > maxOwners {
		return nil
	}
	return owners
}
