package storetest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/outbox"
)

func order(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	want := story(7, 9)
	h.Append(t, false, want...)
	var observed int
	r := relay(b, s, outbox.Options{Batch: 10, Observe: func(n int, late time.Duration, err error) {
		if late <= 0 || err != nil {
			t.Errorf("observed %s late, %v", late, err)
		}
		observed += n
	}})
	n, err := r.Pass(t.Context())
	if err != nil || n != len(want) || observed != n {
		t.Errorf("%d of %d, observed %d, %v", n, len(want), observed, err)
	}
	same(t, "published", inOrder(t, s.published), want)
	same(t, "left", waiting(t, b), nil)
	if s.largest > 10 || s.largest < 5 {
		t.Errorf("a batch had %d events, want 10 at most", s.largest)
	}
	if n, err := r.Pass(t.Context()); n != 0 || err != nil {
		t.Errorf("again %d, %v", n, err)
	}
	claim(t, b, "whoever", time.Second, all, all)
}

func sinkFails(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	away := true
	s.fail = func(call int, events []outbox.Event) (int, error) {
		switch {
		case !away:
			return 0, nil
		case call%3 == 0:
			panic("the connection is nil")
		case call%3 == 1:
			return len(events) - 1, errors.New("the connection ended")
		}
		return 0, errors.New("no connection")
	}
	want := story(4, 10)
	h.Append(t, false, want...)
	r := relay(b, s, outbox.Options{Batch: 8, Attempts: 1})
	for range 10 {
		if n, err := r.Pass(t.Context()); n != 0 || err == nil {
			t.Errorf("while it is unavailable: %d, %v", n, err)
		}
		claim(t, b, "whoever", 0, all, all)
	}
	same(t, "left", waiting(t, b), want)
	away = false
	if n, err := r.Pass(t.Context()); n != len(want) || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
	got, _ := s.first()
	same(t, "published", inOrder(t, got), want)
	same(t, "left", waiting(t, b), nil)
	if n, err := b.CountDead(t.Context()); n != 0 || err != nil {
		t.Errorf("%d events were set aside, %v", n, err)
	}
}

type broken struct{ outbox.Box }

func (broken) Done(context.Context, string, outbox.Parts, []outbox.Event) error {
	return errors.New("no database")
}

func doneFails(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	want := []outbox.Event{event(1, 1, 1), event(1, 1, 2), event(1, 1, 3)}
	h.Append(t, false, want...)
	if n, err := relay(broken{b}, s, outbox.Options{}).Pass(t.Context()); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	same(t, "left", waiting(t, b), want)
	if n, err := relay(b, s, outbox.Options{}).Pass(t.Context()); n != len(want) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	same(t, "published twice", s.published, slices.Concat(want, want))
}

func twoRelays(t *testing.T, h Harness) {
	const writers, rounds = 6, 25
	s := newSink()
	wakers := make([]*outbox.Waker, 3)
	ends := make([]func(), len(wakers))
	for i := range wakers {
		wakers[i] = outbox.NewWaker()
		ends[i] = run(t, relay(h.Box(t), s, outbox.Options{Waker: wakers[i], Poll: time.Hour, Batch: 7, Observe: func(_ int, _ time.Duration, err error) {
			if err != nil {
				t.Error(err)
			}
		}}))
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for round := range rounds {
				e := event(w%2, w, 2*round+1)
				h.Append(t, false, e, event(w%2, w, 2*round+2))
				wakers[(w+round)%len(wakers)].Wake(e.Owner, e.Stream)
			}
		})
	}
	writing.Wait()
	got := s.await(t, writers*rounds*2)
	for _, end := range ends {
		end()
	}
	inOrder(t, got)
	if s.busy.together.Load() {
		t.Error("two relays published events of one partition at once")
	}
	if _, times := s.first(); len(s.published) != len(times) {
		t.Errorf("%d events were published %d times", len(times), len(s.published))
	}
	same(t, "left", waiting(t, h.Box(t)), nil)
}

type meeting struct {
	*sink
	arrive func(ctx context.Context) error
}

func (m meeting) Publish(ctx context.Context, events []outbox.Event) error {
	defer m.busy.enter(events)()
	if err := m.arrive(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = append(m.published, events...)
	select {
	case m.more <- struct{}{}:
	default:
	}
	return nil
}

func meet(together, over chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case together <- struct{}{}:
		case <-together:
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
}

func sharing(t *testing.T, h Harness) {
	const each = 12
	var want []outbox.Event
	for s := range outbox.Partitions {
		for seq := range each {
			want = append(want, event(0, s, seq+1))
		}
	}
	h.Append(t, false, want...)
	var (
		together = make(chan struct{})
		over     = make(chan struct{})
		busy     partitions
	)
	sinks := [2]*sink{newSink(), newSink()}
	for _, s := range sinks {
		s.busy = &busy
		waker := outbox.NewWaker()
		for p := range outbox.Partitions {
			waker.Wake(id(0), id(p))
		}
		arrive := meet(together, over)
		run(t, relay(h.Box(t), meeting{s, arrive}, outbox.Options{Waker: waker, Poll: time.Hour, Batch: 8, Lease: time.Minute}))
	}
	late := time.After(time.Minute)
	var counts [2]int
	for counts[0]+counts[1] < len(want) {
		select {
		case <-sinks[0].more:
		case <-sinks[1].more:
		case <-late:
			t.Fatalf("in a minute the relays published %v of %d events", counts, len(want))
		}
		for i, s := range sinks {
			counts[i] = s.count()
		}
		if counts[0]+counts[1] > len(want)*3/4 {
			select {
			case <-over:
			default:
				close(over)
				if counts[0] < len(want)/4 || counts[1] < len(want)/4 {
					t.Errorf("they have published %v of %d events", counts, len(want))
				}
			}
		}
	}
	if busy.together.Load() {
		t.Error("two relays published events of one partition at once")
	}
	if n := counts[0] + counts[1]; n != len(want) {
		t.Errorf("%d events were published, want %d", n, len(want))
	}
	for _, s := range sinks {
		last := map[string]int64{}
		for _, e := range s.published {
			if e.Seq <= last[e.Stream] {
				t.Errorf("stream %s: %d came after %d", e.Stream, e.Seq, last[e.Stream])
			}
			last[e.Stream] = e.Seq
		}
	}
}

func wake(t *testing.T, h Harness) {
	s, waker := newSink(), outbox.NewWaker()
	run(t, relay(h.Box(t), s, outbox.Options{Waker: waker, Poll: time.Hour}))
	for i := range 5 {
		h.Append(t, false, event(i, 2*i, 1))
		waker.Wake(id(i), id(2*i))
		s.await(t, i+1)
	}
	for i := range 40 {
		h.Append(t, false, event(100+i, 3, 1))
		waker.Wake(id(100+i), id(3))
	}
	s.await(t, 45)
}

func wakeWhileHeld(t *testing.T, h Harness) {
	b, s, waker := h.Box(t), newSink(), outbox.NewWaker()
	mine, other := event(1, 1, 1), event(1, 2, 1)
	claim(t, b, "other", time.Hour, outbox.PartsOf(part(mine)), outbox.PartsOf(part(mine)))
	run(t, relay(h.Box(t), s, outbox.Options{Waker: waker, Poll: time.Hour, Lease: time.Hour}))
	h.Append(t, false, mine, other)
	waker.Wake(mine.Owner, mine.Stream)
	waker.Wake(other.Owner, other.Stream)
	same(t, "published while it is held", s.await(t, 1), []outbox.Event{other})
	release(t, b, "other", all)
	same(t, "published", s.await(t, 2), []outbox.Event{other, mine})
}

func leftBehind(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	watch := outbox.PartsOf(outbox.Leases - 1)
	claim(t, b, "killed", 300*time.Millisecond, watch, watch)
	for range 2 {
		run(t, relay(h.Box(t), s, outbox.Options{Poll: 200 * time.Millisecond}))
	}
	for i := range 3 {
		h.Append(t, false, event(i, i, 1))
		s.await(t, i+1)
	}
}

type slow struct{}

func (slow) Publish(ctx context.Context, _ []outbox.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

func lateSink(t *testing.T, h Harness) {
	b := h.Box(t)
	h.Append(t, false, event(1, 1, 1))
	if n, err := relay(b, slow{}, outbox.Options{Lease: time.Second}).Pass(t.Context()); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	same(t, "left", waiting(t, b), []outbox.Event{event(1, 1, 1)})
}

type Discard struct{}

func (Discard) Publish(context.Context, []outbox.Event) error { return nil }

// Drain measures how fast a relay publishes waiting events: to a sink that does nothing, and to a file that is synced for
// each batch. Sink in opts is not used.
func Drain(b *testing.B, opts outbox.Options, fill func(n int)) {
	b.Helper()
	lines, err := outbox.OpenLines(filepath.Join(b.TempDir(), "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lines.Close(); err != nil {
			b.Error(err)
		}
	})
	for name, sink := range map[string]outbox.Sink{"drain": Discard{}, "drain to a file": lines} {
		opts.Sink = sink
		r := outbox.NewRelay(opts)
		b.Run(name, func(b *testing.B) {
			const n = 10_000
			for b.Loop() {
				b.StopTimer()
				fill(n)
				b.StartTimer()
				if done, err := r.Pass(b.Context()); err != nil {
					b.Fatal(done, err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "events/s")
		})
	}
}
