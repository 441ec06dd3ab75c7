// Package storetest is what every outbox must do, whatever it is kept in.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// Table is the table of the suite.
var Table = outbox.Table{Name: "test_outbox", Owner: "tenant_id", Stream: "install_id", Type: "uuid"}

// Harness is an outbox that nobody else uses.
type Harness struct {
	// Box is a handle on the table of another process.
	Box func(t testing.TB) outbox.Box

	// Append adds events in one transaction, which is taken back when undo is set.
	Append func(t testing.TB, undo bool, events ...outbox.Event)

	// Lapse ends whatever lease there is, as time would.
	Lapse func(t testing.TB)
}

// Run holds outboxes against the contract; open makes a new one.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Values", values},
		{"Undone", undone},
		{"Pages", pages},
		{"Lease", lease},
		{"LeaseRunsOut", leaseRunsOut},
		{"Order", order},
		{"SinkFails", sinkFails},
		{"DoneFails", doneFails},
		{"TwoRelays", twoRelays},
		{"LateSink", lateSink},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

// id is a UUID with a number in it.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

var start = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)

// event is a thing that has happened to an owner.
func event(owner, stream, seq int) outbox.Event {
	return outbox.Event{
		Owner: id(owner), Stream: id(stream), Seq: int64(seq), Topic: "put", Key: fmt.Sprintf("settings/%d", seq),
		Payload: json.RawMessage(fmt.Sprintf(`{"revision":%d}`, seq)), At: start.Add(time.Duration(seq) * time.Microsecond),
	}
}

// story is n events of each of some streams, in their order.
func story(streams, n int) (events []outbox.Event) {
	for s := range streams {
		for seq := range n {
			events = append(events, event(s%3, s, seq+1))
		}
	}
	slices.SortFunc(events, less)
	return events
}

func less(a, b outbox.Event) int {
	return slices.Compare([]string{a.Owner, a.Stream, fmt.Sprintf("%020d", a.Seq)}, []string{b.Owner, b.Stream, fmt.Sprintf("%020d", b.Seq)})
}

// waiting is what is in the table.
func waiting(t testing.TB, b outbox.Box) []outbox.Event {
	t.Helper()
	events, err := b.Next(t.Context(), 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func same(t testing.TB, what string, got, want []outbox.Event) {
	t.Helper()
	if len(got) == len(want) && (len(got) == 0 || reflect.DeepEqual(got, want)) {
		return
	}
	t.Errorf("%s: %d events\n%s\nwant %d\n%s", what, len(got), head(got), len(want), head(want))
}

// head is the beginning of a list, to be printed.
func head(events []outbox.Event) string {
	lines := make([]string, 0, 20)
	for _, e := range events[:min(len(events), cap(lines))] {
		lines = append(lines, fmt.Sprintf("%s %s %d %q %q %s %s", e.Owner, e.Stream, e.Seq, e.Topic, e.Key, e.Payload, e.At))
	}
	return strings.Join(lines, "\n")
}

// sink keeps what it is given.
type sink struct {
	mu        sync.Mutex
	published []outbox.Event
	inside    atomic.Int32
	together  atomic.Bool // two have published at once
	largest   int
	fail      func(call int) (take int, err error) // asked before events are kept
	calls     int
	more      chan struct{}
}

func newSink() *sink { return &sink{more: make(chan struct{}, 1)} }

func (s *sink) Publish(_ context.Context, events []outbox.Event) error {
	if s.inside.Add(1) > 1 {
		s.together.Store(true)
	}
	defer s.inside.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.largest = max(s.largest, len(events))
	var err error
	if s.fail != nil {
		var take int
		if take, err = s.fail(s.calls); err != nil {
			events = events[:min(take, len(events))]
		}
	}
	s.published = append(s.published, events...)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return err
}

// first is what was published, each event the first time.
func (s *sink) first() (events []outbox.Event, times map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times = map[string]int{}
	for _, e := range s.published {
		key := fmt.Sprint(e.Owner, e.Stream, e.Seq)
		if times[key]++; times[key] == 1 {
			events = append(events, e)
		}
	}
	return events, times
}

// await waits until so many different events are published.
func (s *sink) await(t testing.TB, n int) []outbox.Event {
	t.Helper()
	late := time.After(time.Minute)
	for {
		events, _ := s.first()
		if len(events) >= n {
			return events
		}
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("%d of %d events were published in a minute", len(events), n)
		}
	}
}

// inOrder fails unless each stream's events came in the order of their numbers,
// none left out, and returns them sorted.
func inOrder(t testing.TB, events []outbox.Event) []outbox.Event {
	t.Helper()
	last := map[string]int64{}
	for _, e := range events {
		stream := e.Owner + e.Stream
		if e.Seq != last[stream]+1 {
			t.Errorf("stream %s: %d came after %d", stream, e.Seq, last[stream])
		}
		last[stream] = e.Seq
	}
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, less)
	return sorted
}

func relay(b outbox.Box, s outbox.Sink, o outbox.Options) *outbox.Relay {
	o.Box, o.Sink, o.Clock = b, s, clock.System
	return outbox.NewRelay(o)
}

// values: what goes in comes out.
func values(t *testing.T, h Harness) {
	b := h.Box(t)
	var want []outbox.Event
	for i, payload := range []string{
		`{"b": 1, "a" : [ 1e400, "\u0000\ud800", null ], "a":2}`, `null`, `"text"`, `12345678901234567890.10`, `[]`,
	} {
		e := event(1, 2, i+1)
		e.Topic, e.Key, e.Payload = "", "ключ/'\"\\\n😀", json.RawMessage(payload)
		want = append(want, e)
	}
	far := event(1, 2, 1)
	far.Seq, far.Key, far.At = 1<<63-1, "", time.UnixMicro(1).UTC()
	want = append(want, far)
	h.Append(t, false, want...)
	same(t, "as appended", waiting(t, b), want)
	if err := b.Done(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	same(t, "afterwards", waiting(t, b), nil)
	if err := b.Done(t.Context(), want); err != nil {
		t.Errorf("what is gone cannot be deleted: %v", err)
	}
}

// undone: an event of a transaction that was taken back never was.
func undone(t *testing.T, h Harness) {
	h.Append(t, true, event(1, 1, 1))
	h.Append(t, false, event(1, 1, 2))
	h.Append(t, true, event(1, 1, 3))
	same(t, "in the table", waiting(t, h.Box(t)), []outbox.Event{event(1, 1, 2)})
}

// pages: events come in their order, whatever the order of the transactions of
// different streams, and only those that are named are deleted.
func pages(t *testing.T, h Harness) {
	b := h.Box(t)
	want := story(5, 4)
	for _, e := range slices.Backward(want) {
		h.Append(t, false, e)
	}
	got, err := b.Next(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the first", got, want[:7])
	if err := b.Done(t.Context(), []outbox.Event{want[1], want[8], event(9, 9, 9)}); err != nil {
		t.Fatal(err)
	}
	same(t, "what is left", waiting(t, b), slices.Concat(want[:1], want[2:8], want[9:]))
}

func claim(t testing.TB, b outbox.Box, holder string, length time.Duration, want bool) {
	t.Helper()
	if got, err := b.Claim(t.Context(), holder, length); err != nil || got != want {
		t.Errorf("claimed by %s: %v, %v; want %v", holder, got, err, want)
	}
}

// lease: one holds it, until it lets go or its time is over.
func lease(t *testing.T, h Harness) {
	one, two := h.Box(t), h.Box(t)
	release := func(b outbox.Box, holder string) {
		if err := b.Release(t.Context(), holder); err != nil {
			t.Error(err)
		}
	}
	claim(t, one, "one", time.Hour, true)
	claim(t, two, "two", time.Hour, false)
	claim(t, one, "one", time.Hour, true)
	release(two, "two")
	claim(t, two, "two", time.Hour, false)
	release(one, "one")
	claim(t, two, "two", time.Hour, true)
	claim(t, one, "one", time.Hour, false)
	h.Lapse(t)
	claim(t, one, "one", time.Hour, true)
	claim(t, two, "two", time.Hour, false)
	// It cannot have been given by the clock of now.
	claim(t, two, "two", time.Minute, true)
}

// leaseRunsOut waits for it.
func leaseRunsOut(t *testing.T, h Harness) {
	b := h.Box(t)
	const length = 100 * time.Millisecond
	before := time.Now()
	claim(t, b, "one", length, true)
	for {
		mine, err := b.Claim(t.Context(), "two", length)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); mine {
			// The clock that measures is not the one that counts: a moment less is fair.
			if took < length*9/10 {
				t.Errorf("it has lasted %s, want %s", took, length)
			}
			return
		} else if took > time.Minute {
			t.Fatal("it does not end")
		}
	}
}

// order: a pass publishes everything, in bounded batches, and leaves nothing.
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
	same(t, "published", s.published, want)
	same(t, "left", waiting(t, b), nil)
	if s.largest != 10 {
		t.Errorf("a batch had %d events, want 10", s.largest)
	}
	if n, err := r.Pass(t.Context()); n != 0 || err != nil {
		t.Errorf("again %d, %v", n, err)
	}
	claim(t, b, "whoever", time.Second, true)
}

// sinkFails: what a sink refuses, or takes in part, comes again, in order.
func sinkFails(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	s.fail = func(call int) (int, error) {
		switch call % 4 {
		case 1:
			return 0, errors.New("not now")
		case 2:
			return 3, errors.New("in part")
		case 3:
			panic("a bug of the sink")
		}
		return 0, nil
	}
	want := story(4, 10)
	h.Append(t, false, want...)
	r := relay(b, s, outbox.Options{Batch: 8})
	failed := 0
	for range 100 {
		n, err := r.Pass(t.Context())
		if err == nil {
			break
		}
		if n > 8 {
			t.Errorf("%d events before a failure", n)
		}
		failed++
	}
	// Five batches, each refused three times; the pass that publishes one meets the next failure.
	if failed != 15 {
		t.Errorf("%d passes failed, want 15", failed)
	}
	got, _ := s.first()
	same(t, "published", inOrder(t, got), want)
	same(t, "left", waiting(t, b), nil)
}

// broken is a box that deletes nothing.
type broken struct{ outbox.Box }

func (broken) Done(context.Context, []outbox.Event) error { return errors.New("no database") }

// doneFails: what is published and not deleted is published again.
func doneFails(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	want := story(3, 4)
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

// twoRelays: several processes write and publish at once; everything is
// published once and in order, and never by two at a time.
func twoRelays(t *testing.T, h Harness) {
	const writers, rounds = 4, 25
	s := newSink()
	ctx, stop := context.WithCancel(t.Context())
	relays := make([]*outbox.Relay, 3)
	var running, writing sync.WaitGroup
	for i := range relays {
		relays[i] = relay(h.Box(t), s, outbox.Options{Every: 10 * time.Millisecond, Batch: 7, Observe: func(_ int, _ time.Duration, err error) {
			if err != nil {
				t.Error(err)
			}
		}})
		running.Go(func() { relays[i].Run(ctx) })
	}
	for w := range writers {
		writing.Go(func() {
			for round := range rounds {
				h.Append(t, false, event(w%2, w, 2*round+1), event(w%2, w, 2*round+2))
				relays[w%len(relays)].Nudge()
			}
		})
	}
	writing.Wait()
	got := s.await(t, writers*rounds*2)
	stop()
	running.Wait()
	inOrder(t, got)
	if s.together.Load() {
		t.Error("two have published at once")
	}
	if _, times := s.first(); len(s.published) != len(times) {
		t.Errorf("%d events were published %d times", len(times), len(s.published))
	}
	same(t, "left", waiting(t, h.Box(t)), nil)
}

// slow publishes until it is told to stop.
type slow struct{}

func (slow) Publish(ctx context.Context, _ []outbox.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// lateSink: a sink is stopped before its lease ends, and nothing is lost.
func lateSink(t *testing.T, h Harness) {
	b := h.Box(t)
	h.Append(t, false, event(1, 1, 1))
	if n, err := relay(b, slow{}, outbox.Options{Lease: time.Second}).Pass(t.Context()); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	same(t, "left", waiting(t, b), []outbox.Event{event(1, 1, 1)})
}

// Discard is a sink that forgets.
type Discard struct{}

// Publish implements outbox.Sink.
func (Discard) Publish(context.Context, []outbox.Event) error { return nil }

// Drain measures a relay that is behind: events in a second.
func Drain(b *testing.B, r *outbox.Relay, fill func(n int)) {
	b.Helper()
	b.Run("drain", func(b *testing.B) {
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
