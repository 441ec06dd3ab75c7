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
	together int

	mu       sync.Mutex
	installs map[Owner]*line
	unused   *line // kept so that a lone write does not allocate
}

type line struct {
	owner   Owner
	taken   int
	waiting []*turn
}

type turn struct {
	places int
	given  chan struct{}
}

// NewWriteQueue returns a queue in which up to together writes per install proceed concurrently.
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

func (t Turn) Leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.advance(t.line, t.places)
}

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
