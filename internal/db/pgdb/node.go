package pgdb

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// A Citus node that does not answer must not exhaust the connections for other nodes, so only some may wait for it.
// If none of its running statements finishes, the coordinator is asked to connect to it. While it cannot, statements
// for that node fail immediately.

const (
	silence    = 2 * time.Second
	probePause = time.Second

	// turnPatience is how long a request that waits for a node, or runs a statement there, keeps its turn.
	turnPatience = 100 * time.Millisecond
)

var (
	errBusy   = errcode.New(errcode.Unavailable, "a node of the database is busy")
	errSilent = errcode.New(errcode.Unavailable, "a node of the database does not answer")
)

// Silent reports whether a statement failed because its node does not answer.
func Silent(err error) bool { return errors.Is(err, errSilent) }

// node limits the statements running on one Citus node, or those running on all nodes.
type node struct {
	places chan struct{}
	life   context.Context
	probe  func(context.Context) (answers bool, err error)

	others func() []*node
	wide   *node // the all-nodes node; nil in that node itself

	mu       sync.Mutex
	under    map[*patience]struct{}
	answered time.Time // when the latest statement ended, or the first began
	examined bool
	removed  bool
	silent   bool
	changed  chan struct{}
}

func newNode(life context.Context, places int) *node {
	return &node{places: make(chan struct{}, places), life: life, under: map[*patience]struct{}{}, changed: make(chan struct{})}
}

func (n *node) check() (changed <-chan struct{}, err error) {
	for _, other := range n.each() {
		if _, err := other.check(); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		return nil, errSilent
	}
	if len(n.under) > 0 && time.Since(n.answered) > silence {
		n.answered = time.Now()
		n.suspect()
	}
	return n.changed, nil
}

func (n *node) each() []*node {
	if n.others == nil {
		return nil
	}
	return n.others()
}

func (n *node) suspect() {
	if n.others != nil {
		for _, other := range n.others() {
			other.mu.Lock()
			other.suspect()
			other.mu.Unlock()
		}
		return
	}
	if !n.examined {
		n.examined = true
		go n.examine()
	}
}

// enter takes a place. If no place is free, it waits, or returns a fullError if try is set.
func (n *node) enter(p *patience, try bool) error {
	for {
		changed, err := n.check()
		if err != nil {
			return err
		}
		select {
		case n.places <- struct{}{}:
			return n.begin(p)
		default:
		}
		if try {
			return &fullError{n}
		}
		select {
		case n.places <- struct{}{}:
			return n.begin(p)
		case <-changed:
		case <-p.Done():
			if !errors.Is(context.Cause(p.Context), context.DeadlineExceeded) {
				return p.Err()
			}
			if _, err := n.check(); err != nil {
				return err
			}
			return errBusy
		}
	}
}

func (n *node) begin(p *patience) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		<-n.places
		return errSilent
	}
	if len(n.under) == 0 {
		n.answered = time.Now()
	}
	n.under[p] = struct{}{}
	return nil
}

func (n *node) leave(p *patience, answered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.under, p)
	if answered {
		n.answered = time.Now()
	}
	<-n.places
}

func (n *node) examine() {
	for {
		answers, err := n.probe(n.life)
		n.mu.Lock()
		// If the coordinator does not answer either, the node's state is unknown.
		done := n.removed || n.life.Err() != nil || err == nil && answers || err != nil && !n.silent
		n.examined = !done
		n.mu.Unlock()
		if done || err == nil {
			n.set(!done)
		}
		if done || !clock.Sleep(n.life, probePause) {
			return
		}
	}
}

func (n *node) set(silent bool) {
	n.mu.Lock()
	changed := n.silent != silent
	if changed {
		n.silent = silent
		n.announce()
	}
	n.mu.Unlock()
	if changed && silent && n.wide != nil {
		n.wide.mu.Lock()
		n.wide.announce()
		n.wide.cancel()
		n.wide.mu.Unlock()
	}
}

// announce requires n.mu.
func (n *node) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
	if n.silent {
		n.cancel()
	}
}

func (n *node) cancel() {
	for p := range n.under {
		p.cancel(errSilent)
	}
}

type place struct {
	node     *node
	patience *patience
	meter    *work.Meter
	yield    *time.Timer
}

func (l *place) wait(on *node) error {
	if on == nil {
		return nil
	}
	return l.enter(on, false)
}

// take is like wait, but for a session with a connection: it returns a fullError instead of waiting, and keeps a
// place already taken.
func (l *place) take(on *node) error {
	if on == nil || l.node != nil {
		return nil
	}
	return l.enter(on, true)
}

func (l *place) enter(on *node, try bool) error {
	if l.meter != nil {
		l.yield = time.AfterFunc(turnPatience, l.meter.Yield)
	}
	if err := on.enter(l.patience, try); err != nil {
		l.stop()
		return err
	}
	l.node = on
	return nil
}

func (l *place) stop() {
	if l.yield != nil {
		l.yield.Stop()
	}
}

func (l *place) leave() {
	if l.node != nil {
		l.stop()
		l.node.leave(l.patience, l.patience.Err() == nil)
		l.node = nil
	}
}

// fullError asks for a restart of the transaction when the node has a free place.
type fullError struct{ node *node }

func (*fullError) Error() string { return errBusy.Error() }
