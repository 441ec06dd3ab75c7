package blobs

import (
	"context"
	"sync"
)

// tasks tracks background goroutines. Unlike a sync.WaitGroup, it allows new tasks while a caller waits.
type tasks struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when the last task ends; nil if no caller waits
}

// Go runs fn in the background.
func (t *tasks) Go(fn func()) {
	t.mu.Lock()
	t.count++
	t.mu.Unlock()
	go func() {
		defer t.done()
		fn()
	}()
}

// done counts a task's end, and wakes Wait after the last.
func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Wait waits until no task runs.
func (t *tasks) Wait(ctx context.Context) error {
	t.mu.Lock()
	if t.count == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
