package extstorage

import (
	"context"
	"slices"
	"sync"

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// WriteQueue queues this process's writes by install. The engine serializes them anyway, but here they wait without a
// connection, and computed values are not outdated. It is safe for concurrent use.
type WriteQueue struct {
	together int // places per install

	mu       sync.Mutex
	installs map[Owner]*line
	unused   *line // kept so that a lone write does not allocate
}

// line is the queue of an install.
type line struct {
	owner   Owner
	taken   int // places in use
	waiting []*turn
}

// turn is a waiting write.
type turn struct {
	places int           // 1, or all if it must be alone
	given  chan struct{} // closed when its turn came
}

// NewWriteQueue returns a queue in which up to together writes, at least 1, proceed concurrently per install, in the order
// of their calls.
func NewWriteQueue(together int) *WriteQueue {
	return &WriteQueue{together: together, installs: map[Owner]*line{}}
}

// Turn is a write's place in the queue.
type Turn struct {
	queue  *WriteQueue
	line   *line
	places int
}

// Enter waits for a turn. If alone is set, it waits until no other write of the install runs in this process.
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
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	select {
	case <-w.given:
		return Turn{q, l, places}, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		q.advance(l, 0) // it may have blocked others
	} else {
		q.advance(l, places)
	}
	return Turn{}, errcode.Wrap(errcode.Unavailable, "the request timed out waiting for other writes to the install", context.Cause(ctx))
}

// Leave gives the turn to the next write. Call it once.
func (t Turn) Leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.advance(t.line, t.places)
}

// line returns the install's queue. The caller holds mu.
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

// advance returns places and gives turns in order: a write that must be alone is not overtaken. The caller holds mu.
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
