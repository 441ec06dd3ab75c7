package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// memory is a box in which time passes only as the test lets it, and which real
// ones are held against in their own packages.
type memory struct {
	mu     sync.Mutex
	events []outbox.Event
	held   string
	reads  int
	err    error
}

func (m *memory) add(e ...outbox.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e...)
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) Claim(_ context.Context, holder string, _ time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != "" && m.held != holder {
		return false, nil
	}
	m.held = holder
	return true, nil
}

func (m *memory) Release(_ context.Context, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == holder {
		m.held = ""
	}
	return nil
}

func (m *memory) Next(_ context.Context, limit int) ([]outbox.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	return slices.Clone(m.events[:min(limit, len(m.events))]), m.err
}

func (m *memory) Done(ctx context.Context, events []outbox.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		m.events = m.events[len(events):]
	}
	return ctx.Err()
}

// heard is a sink that says when an event was published.
type heard chan time.Time

func (h heard) Publish(ctx context.Context, events []outbox.Event) error {
	for range events {
		h <- time.Now()
	}
	return ctx.Err()
}

func start(t *testing.T, o outbox.Options) (*outbox.Relay, func()) {
	t.Helper()
	o.Clock = clock.System
	r := outbox.NewRelay(o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	return r, func() { cancel(); running.Wait() }
}

// TestNudge: an event that the relay is told of is published at once; more than
// one in a short time together; one of another process within the pause.
func TestNudge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink := &memory{}, make(heard, 100)
		r, stop := start(t, outbox.Options{Box: box, Sink: sink, Every: 10 * time.Second})
		defer stop()
		time.Sleep(time.Second) // the relay waits now
		for _, c := range []struct {
			nudges bool
			most   time.Duration
		}{{true, 0}, {true, 50 * time.Millisecond}, {true, 50 * time.Millisecond}, {false, 10050 * time.Millisecond}} {
			before := time.Now()
			box.add(event(1))
			if c.nudges {
				r.Nudge()
				r.Nudge()
			}
			if took := (<-sink).Sub(before); took > c.most {
				t.Errorf("published after %s, want %s", took, c.most)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := box.reads
		for range 1000 {
			r.Nudge()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if passes := box.reads - before; passes < 15 || passes > 22 {
			t.Errorf("%d passes in a second of nudges, want 20", passes)
		}
	})
}

// TestBackoff: failures make the pauses longer, up to a minute, nudges do not
// make them shorter, and one success makes them what they were.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		box, sink := &memory{err: errors.New("no database")}, make(heard, 100)
		var failures []time.Time
		r, stop := start(t, outbox.Options{
			Box: box, Sink: sink, Log: slog.New(slog.NewTextHandler(&text, nil)),
			Observe: func(n int, _ time.Duration, err error) {
				if err != nil {
					failures = append(failures, time.Now())
				}
			},
		})
		for range 600 {
			r.Nudge()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(failures) < 12 || len(failures) > 16 {
			t.Errorf("%d tries in ten minutes", len(failures))
		}
		for i := range failures[1:] {
			pause := min(2<<i, 60) * int(time.Second)
			if got := int(failures[i+1].Sub(failures[i])); got < pause || got > pause+pause/4+1 {
				t.Errorf("pause %d was %s", i, time.Duration(got))
			}
		}
		box.fail(nil)
		box.add(event(1))
		<-sink
		before := time.Now()
		box.add(event(2))
		if took := (<-sink).Sub(before); took > 1050*time.Millisecond {
			t.Errorf("after a success it took %s", took)
		}
		box.fail(errors.New("again no database"))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := len(failures); n < 2 || failures[n-1].Sub(failures[n-2]) > 2500*time.Millisecond {
			t.Errorf("the pauses go on as before: %v", failures)
		}
		stop()
		if n := strings.Count(text.String(), "level=WARN"); n != len(failures) || !strings.Contains(text.String(), "no database") {
			t.Errorf("%d lines of %d failures:\n%s", n, len(failures), text.String())
		}
	})
}

// stopping is a sink in the middle of which the process is told to stop.
type stopping struct{ stop context.CancelFunc }

func (s stopping) Publish(context.Context, []outbox.Event) error {
	s.stop()
	return nil
}

// TestStop: what was published when the end came is not published again, and
// nobody has to wait for a lease.
func TestStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	box := &memory{}
	box.add(event(1), event(2))
	r := outbox.NewRelay(outbox.Options{Box: box, Sink: stopping{cancel}, Clock: clock.System, Observe: func(n int, _ time.Duration, err error) {
		if n != 2 || err != nil {
			t.Errorf("observed %d, %v", n, err)
		}
	}})
	r.Run(ctx)
	if len(box.events) != 0 || box.held != "" {
		t.Errorf("%d events are left, the lease is held by %q", len(box.events), box.held)
	}
}
