package extstorage

import (
	"context"
	"slices"
	"sync"

	"holdfast/internal/fault"
)

// WriteQueue puts the writes of each install in this process in a line, in the order
// of their arrival. The engine writes one of them at a time anyway: what would only
// wait for the install's lock there takes no connection, and what is computed of a
// record is not overtaken. It is safe for concurrent use.
type WriteQueue struct {
	together int

	mu       sync.Mutex
	installs map[Owner]*line
	unused   *line // one, so that a lone write allocates none
}

// line is the writes of one install.
type line struct {
	owner   Owner
	taken   int
	waiting []*turn
}

type turn struct {
	places int
	given  chan struct{} // closed
}

// NewWriteQueue lets so many writes of an install go on together.
func NewWriteQueue(together int) *WriteQueue {
	return &WriteQueue{together: together, installs: map[Owner]*line{}}
}

// Turn is a write's place in the queue, which Leave gives back.
type Turn struct {
	queue  *WriteQueue
	line   *line
	places int
}

// Enter waits for a write's turn; alone: no other write of the install in this
// process goes on until it has left. fault.Unavailable when ctx ends before.
func (q *WriteQueue) Enter(ctx context.Context, o Owner, alone bool) (Turn, error) {
	places := 1
	if alone {
		places = q.together
	}
	q.mu.Lock()
	l := q.line(o)
	if len(l.waiting) == 0 && places <= q.together-l.taken {
		l.taken += places
		q.mu.Unlock()
		return Turn{q, l, places}, nil
	}
	w := &turn{places, make(chan struct{})}
	l.waiting = append(l.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.given:
		return Turn{q, l, places}, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		q.advance(l, 0) // it may have stood before others
	} else {
		q.advance(l, places)
	}
	return Turn{}, fault.Wrap(fault.Unavailable, "the request timed out waiting for other writes to the install", context.Cause(ctx))
}

// Leave ends the write.
func (t Turn) Leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.advance(t.line, t.places)
}

// line is that of an install, which is made if there is none.
func (q *WriteQueue) line(o Owner) *line {
	l := q.installs[o]
	if l == nil {
		if l, q.unused = q.unused, nil; l == nil {
			l = &line{}
		}
		l.owner = o
		q.installs[o] = l
	}
	return l
}

// advance gives places back and turns to those who are next.
func (q *WriteQueue) advance(l *line, places int) {
	l.taken -= places
	for len(l.waiting) > 0 && l.waiting[0].places <= q.together-l.taken {
		l.taken += l.waiting[0].places
		close(l.waiting[0].given)
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	if l.taken == 0 {
		delete(q.installs, l.owner)
		q.unused = l
	}
}
