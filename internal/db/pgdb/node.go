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
	// silence is how long no statement ends before a node is probed; probePause is the time between probes.
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
	slots chan struct{} // filled: a statement holds each
	life  context.Context
	probe func(context.Context) (answers bool, err error) // asks the coordinator to connect to the node

	others func() []*node // of the all-nodes node: every node
	wide   *node          // the all-nodes node; nil in that node itself

	mu       sync.Mutex
	under    map[*patience]struct{} // statements in progress
	answered time.Time              // when the latest statement ended, or the first began
	examined bool                   // a goroutine probes
	removed  bool                   // no longer in the layout
	silent   bool
	changed  chan struct{} // closed when silent changes
}

// newNode returns a node on which so many statements may run at once.
func newNode(life context.Context, slots int) *node {
	return &node{slots: make(chan struct{}, slots), life: life, under: map[*patience]struct{}{}, changed: make(chan struct{})}
}

// check returns errSilent if the node, or for the all-nodes node any node, does not answer. It starts a probe if no
// statement ended for a while. changed is closed when the answer may differ.
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

// each returns the nodes of the all-nodes node.
func (n *node) each() []*node {
	if n.others == nil {
		return nil
	}
	return n.others()
}

// suspect starts a probe unless one runs. The caller holds n.mu.
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

// enter takes a slot. If no slot is free, it waits, or returns a fullError if try is set.
func (n *node) enter(p *patience, try bool) error {
	for {
		changed, err := n.check()
		if err != nil {
			return err
		}
		select {
		case n.slots <- struct{}{}:
			return n.begin(p)
		default:
		}
		if try {
			return &fullError{n}
		}
		select {
		case n.slots <- struct{}{}:
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

// begin records a statement that took a slot.
func (n *node) begin(p *patience) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		<-n.slots
		return errSilent
	}
	if len(n.under) == 0 {
		n.answered = time.Now()
	}
	n.under[p] = struct{}{}
	return nil
}

// leave gives the slot back. answered is false if the statement was abandoned.
func (n *node) leave(p *patience, answered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.under, p)
	if answered {
		n.answered = time.Now()
	}
	<-n.slots
}

// examine probes until the node answers, is removed, or the database is closed.
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

// set records whether the node is silent, and ends its statements and those on all nodes if it is.
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

// cancel ends the statements in progress with errSilent.
func (n *node) cancel() {
	for p := range n.under {
		p.cancel(errSilent)
	}
}

// nodeSlot is a statement's or transaction's slot on a node. While it waits, or its statement runs longer than
// turnPatience, the request gives back its turn at the database.
type nodeSlot struct {
	node     *node // nil: no slot
	patience *patience
	meter    *work.Meter
	yield    *time.Timer // gives the turn back; nil without a meter
}

// wait takes a slot, and waits for it; nil needs none.
func (l *nodeSlot) wait(on *node) error {
	if on == nil {
		return nil
	}
	return l.enter(on, false)
}

// take is like wait, but for a session with a connection: it returns a fullError instead of waiting, and keeps a
// slot already taken.
func (l *nodeSlot) take(on *node) error {
	if on == nil || l.node != nil {
		return nil
	}
	return l.enter(on, true)
}

// enter takes a slot; see node.enter.
func (l *nodeSlot) enter(on *node, try bool) error {
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

func (l *nodeSlot) stop() {
	if l.yield != nil {
		l.yield.Stop()
	}
}

// leave gives the slot back, if any.
func (l *nodeSlot) leave() {
	if l.node != nil {
		l.stop()
		l.node.leave(l.patience, l.patience.Err() == nil)
		l.node = nil
	}
}

// fullError asks for a restart of the transaction when the node has a free slot.
type fullError struct{ node *node }

func (*fullError) Error() string { return errBusy.Error() }
