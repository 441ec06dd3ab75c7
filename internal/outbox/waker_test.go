package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

type dead struct {
	outbox.Retaining
	memory *memory
	event  outbox.Event
}

func (d *dead) RetryDead(_ context.Context, id outbox.ID) (bool, error) {
	if id != d.event.ID() {
		return false, nil
	}
	d.memory.add(d.event)
	return true, nil
}

func TestWaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink, waker := &memory{}, make(heard, 1), outbox.NewWaker()
		relay := outbox.NewRelay(outbox.Options{Box: box, Sink: sink, Clock: clock.System, Waker: waker, Poll: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go relay.Run(ctx)
		synctest.Wait() // the relay is idle
		queued := time.Now()
		e := event(1)
		waking := outbox.Waking(&dead{memory: box, event: e}, waker)
		for _, id := range []outbox.ID{{Owner: "b", Seq: 1}, e.ID()} {
			if found, err := waking.RetryDead(t.Context(), id); found != (id == e.ID()) || err != nil {
				t.Errorf("%v: %v, %v", id, found, err)
			}
		}
		if at := <-sink; at.Sub(queued) > 100*time.Millisecond {
			t.Errorf("published after %s", at.Sub(queued))
		}
	})
}
