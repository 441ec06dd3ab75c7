package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// memory is an in-memory box for synctest. Other packages test real boxes.
type memory struct {
	outbox.Dead

	mu     sync.Mutex
	events []outbox.Event
	leases [outbox.Leases]lease
	asked  outbox.Query
	calls  map[string]int
	err    error
}

type lease struct {
	holder string
	until  time.Time
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

func (m *memory) count(name string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for call, times := range m.calls {
		if name == "" || call == name {
			n += times
		}
	}
	return n
}

func (m *memory) begin(call string) (end func()) {
	m.mu.Lock()
	if m.calls == nil {
		m.calls = map[string]int{}
	}
	m.calls[call]++
	return m.mu.Unlock
}

func (m *memory) Claim(_ context.Context, holder string, length time.Duration, parts outbox.Parts) (held outbox.Parts, err error) {
	defer m.begin("claim")()
	for p := range parts.All() {
		if l := &m.leases[p]; l.holder == holder || !time.Now().Before(l.until) {
			*l = lease{holder, time.Now().Add(length)}
			held |= outbox.PartsOf(p)
		}
	}
	return held, nil
}

func (m *memory) Release(_ context.Context, holder string, parts outbox.Parts) error {
	defer m.begin("release")()
	m.letGo(holder, parts)
	return nil
}

func (m *memory) letGo(holder string, parts outbox.Parts) {
	for p := range parts.All() {
		if m.leases[p].holder == holder {
			m.leases[p] = lease{}
		}
	}
}

func (m *memory) Next(_ context.Context, q outbox.Query) (events []outbox.Event, more outbox.Parts, err error) {
	defer m.begin("next")()
	m.asked = q
	for _, e := range m.events {
		if q.Parts.Has(outbox.Partition(e.Owner, e.Stream)) && len(events) < q.Limit {
			events = append(events, e)
		}
	}
	return events, 0, m.err
}

func (m *memory) Done(ctx context.Context, holder string, parts outbox.Parts, events []outbox.Event) error {
	defer m.begin("done")()
	if ctx.Err() == nil {
		gone := map[outbox.ID]bool{}
		for _, e := range events {
			gone[e.ID()] = true
		}
		left := m.events[:0]
		for _, e := range m.events {
			if !gone[e.ID()] {
				left = append(left, e)
			}
		}
		m.events = left
		m.letGo(holder, parts)
	}
	return ctx.Err()
}

func (m *memory) Refuse(context.Context, outbox.Event, string, func(int) outbox.Decision) error {
	panic("not in these tests")
}

func (m *memory) CountDead(context.Context) (int, error) {
	defer m.begin("count")()
	return 0, nil
}

type heard chan time.Time

func (h heard) Publish(ctx context.Context, events []outbox.Event) error {
	for range events {
		h <- time.Now()
	}
	return ctx.Err()
}

func start(t *testing.T, o outbox.Options) (stop func()) {
	t.Helper()
	o.Clock = clock.System
	r := outbox.NewRelay(o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

const owner, stream = "5", "3" // in partition 8

func happened(seq int64) outbox.Event {
	return outbox.Event{Owner: owner, Stream: stream, Seq: seq, Payload: []byte(`{}`), At: time.Now()}
}

// TestWake checks that a woken relay publishes at once, gathers events that follow shortly, and finds another
// process's event at the next poll.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink, waker := &memory{}, make(heard, 100), outbox.NewWaker()
		defer start(t, outbox.Options{Box: box, Sink: sink, Waker: waker, Poll: 10 * time.Second})()
		time.Sleep(time.Second) // the relay is waiting
		seq := int64(0)
		for _, c := range []struct {
			wakes bool
			most  time.Duration
		}{{true, 0}, {true, 100 * time.Millisecond}, {true, 100 * time.Millisecond}, {false, 11100 * time.Millisecond}} {
			before := time.Now()
			seq++
			box.add(happened(seq))
			if c.wakes {
				waker.Wake(owner, stream)
				waker.Wake(owner, stream)
			}
			if took := (<-sink).Sub(before); took > c.most {
				t.Errorf("published after %s, want %s", took, c.most)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := box.count("next")
		for range 1000 {
			waker.Wake(owner, stream)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if passes := box.count("next") - before; passes < 8 || passes > 12 {
			t.Errorf("%d passes in a second of wakes, want 10", passes)
		}
		if got := box.asked; got.Parts != outbox.PartsOf(8) || len(got.Owners) != 1 || got.Owners[0] != owner {
			t.Errorf("asked for %+v", got)
		}
		time.Sleep(time.Second)
		waker.Wake(owner, stream)
		synctest.Wait() // the relay pauses, so it takes all following events together
		for i := range 20 {
			waker.Wake(strings.Repeat("x", i)+owner, stream)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := box.asked; got.Parts != outbox.PartsOf(8) || got.Owners != nil {
			t.Errorf("asked for %+v, want all owners", got)
		}
	})
}

func TestNoRelay(t *testing.T) {
	t.Parallel()
	var none *outbox.Waker
	none.Wake(owner, stream)
}

type distributed struct{ *memory }

func (distributed) Distributed(context.Context) (bool, error) { return true, nil }

// TestIdle checks that of several idle relays, one polls the table and the others only claim its lease, and that all
// poll a quarter as often if each read is distributed.
func TestIdle(t *testing.T) {
	t.Parallel()
	const relays = 4
	for _, tc := range []struct {
		name  string
		box   func(*memory) outbox.Box
		polls float64 // per minute; each pause may be a tenth longer
	}{
		{"OneServer", func(m *memory) outbox.Box { return m }, 2},
		{"Distributed", func(m *memory) outbox.Box { return distributed{m} }, 0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				box := &memory{}
				var stops []func()
				for range relays {
					stops = append(stops, start(t, outbox.Options{Box: tc.box(box), Sink: make(heard)}))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				before := map[string]int{"claim": box.count("claim"), "next": box.count("next"), "count": box.count("count"), "": box.count("")}
				time.Sleep(4 * time.Hour)
				synctest.Wait()
				for name, times := range map[string]float64{"claim": relays, "next": 1, "count": 1, "": relays + 2} {
					most := times * tc.polls
					if got := float64(box.count(name)-before[name]) / (4 * 60); got > most || got < most*0.9 {
						t.Errorf("%q: %.2f calls in a minute, want %.2f", name, got, most)
					}
				}
				for _, stop := range stops {
					stop()
				}
			})
		})
	}
}

// TestHeld checks that a woken relay without a lease retries after growing pauses, and gets the lease soon after its
// release.
func TestHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink, waker := &memory{}, make(heard, 10), outbox.NewWaker()
		defer start(t, outbox.Options{Box: box, Sink: sink, Waker: waker, Poll: time.Hour})()
		time.Sleep(time.Second)
		box.leases[8] = lease{"other", time.Now().Add(time.Minute)}
		box.add(happened(1))
		waker.Wake(owner, stream)
		before := box.count("claim")
		released := time.Now().Add(time.Minute)
		took := (<-sink).Sub(released)
		if took < 0 || took > 2600*time.Millisecond {
			t.Errorf("published %s after the lease has expired", took)
		}
		if n := box.count("claim") - before; n < 25 || n > 40 {
			t.Errorf("%d claims in a minute", n)
		}
	})
}

// TestKilledWithWatch checks that another process takes over polling after a kill and finds the remaining events.
func TestKilledWithWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink := &memory{}, make(heard, 10)
		box.leases[outbox.Partitions] = lease{"killed", time.Now().Add(45 * time.Second)}
		defer start(t, outbox.Options{Box: box, Sink: sink})()
		time.Sleep(time.Second)
		box.add(happened(1))
		before := time.Now()
		if took := (<-sink).Sub(before); took > 80*time.Second {
			t.Errorf("published after %s", took)
		}
	})
}

// TestBackoff checks that pauses after failures grow to a minute, that Wake does not shorten them, and that a success
// resets them.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		box, sink, waker := &memory{err: errors.New("no database")}, make(heard, 100), outbox.NewWaker()
		var failures []time.Time
		stop := start(t, outbox.Options{
			Box: box, Sink: sink, Waker: waker, Log: slog.New(slog.NewTextHandler(&text, nil)),
			Observe: func(n int, _ time.Duration, err error) {
				if err != nil {
					failures = append(failures, time.Now())
				}
			},
		})
		for range 600 {
			waker.Wake(owner, stream)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(failures) < 12 || len(failures) > 16 {
			t.Errorf("%d tries in ten minutes", len(failures))
		}
		for i := range failures[1:] {
			pause := min(2<<i, 60) * int(time.Second)
			if got := int(failures[i+1].Sub(failures[i])); got < pause || got > pause+pause/4+int(100*time.Millisecond) {
				t.Errorf("pause %d was %s", i, time.Duration(got))
			}
		}
		box.fail(nil)
		box.add(happened(1))
		<-sink
		time.Sleep(time.Second)
		before := time.Now()
		box.add(happened(2))
		waker.Wake(owner, stream)
		if took := (<-sink).Sub(before); took > 0 {
			t.Errorf("after a success it took %s", took)
		}
		box.fail(errors.New("again no database"))
		for range 4 {
			waker.Wake(owner, stream)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(failures); n < 2 || failures[n-1].Sub(failures[n-2]) > 2600*time.Millisecond {
			t.Errorf("the pauses were not reset: %v", failures)
		}
		stop()
		if n := strings.Count(text.String(), "level=WARN"); n != len(failures) || !strings.Contains(text.String(), "no database") {
			t.Errorf("%d lines of %d failures:\n%s", n, len(failures), text.String())
		}
	})
}

type stopping struct{ stop context.CancelFunc }

func (s stopping) Publish(context.Context, []outbox.Event) error {
	s.stop()
	return nil
}

// TestStop checks that events published during a shutdown are not published again, and that the leases are released.
func TestStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	box := &memory{}
	box.add(happened(1), happened(2))
	r := outbox.NewRelay(outbox.Options{Box: box, Sink: stopping{cancel}, Clock: clock.System, Observe: func(n int, _ time.Duration, err error) {
		if n != 2 || err != nil {
			t.Errorf("observed %d, %v", n, err)
		}
	}})
	r.Run(ctx)
	if len(box.events) != 0 || box.leases != [outbox.Leases]lease{} {
		t.Errorf("%d events are left, the leases are %v", len(box.events), box.leases)
	}
}

// TestLook checks that a relay looks between polls, so another process's events are published within a second, and
// that another relay takes over.
func TestLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, sink := &memory{}, make(heard, 1)
		o := outbox.Options{Box: box, Sink: sink, Poll: time.Minute, Look: time.Second}
		published := func(seq int64, most time.Duration) {
			t.Helper()
			queued := time.Now()
			box.add(happened(seq))
			if at := <-sink; at.Sub(queued) > most {
				t.Errorf("event %d was published after %s", seq, at.Sub(queued))
			}
		}
		endFirst := start(t, o)
		synctest.Wait()
		endSecond := start(t, o)
		synctest.Wait()
		before := box.count("next")
		time.Sleep(30 * time.Second)
		if n := box.count("next") - before; n < 25 || n > 31 {
			t.Errorf("idle relays looked %d times in 30 s", n)
		}
		published(1, 1100*time.Millisecond)
		endFirst()
		published(2, 70*time.Second)
		published(3, 1100*time.Millisecond)
		endSecond()
	})
}
