package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/outbox"
)

func without(events []outbox.Event, one outbox.Event) []outbox.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e outbox.Event) bool { return e.ID() == one.ID() })
}

func dead(t testing.TB, b outbox.Box) []outbox.DeadEvent {
	t.Helper()
	list, err := b.ListDead(t.Context(), outbox.ID{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.CountDead(t.Context()); n != len(list) || err != nil {
		t.Errorf("%d events are counted and %d listed, %v", n, len(list), err)
	}
	return list
}

func died(t testing.TB, b outbox.Box, want outbox.Event, attempts int, reason string) {
	t.Helper()
	list := dead(t, b)
	if len(list) != 1 {
		t.Fatalf("%d events were set aside, want one", len(list))
	}
	same(t, "set aside", []outbox.Event{list[0].Event}, []outbox.Event{want})
	if d := list[0]; d.Attempts != attempts || d.Reason != reason || time.Since(d.DiedAt).Abs() > time.Hour {
		t.Errorf("after %d attempts at %s: %q", d.Attempts, d.DiedAt, d.Reason)
	}
}

func refusedThenTaken(t *testing.T, h Harness) {
	b, s, waker := h.Box(t), newSink(), outbox.NewWaker()
	want := story(5, 4)
	no := event(1, 4, 2)
	var takes atomic.Bool
	refuse := refusal(no, 1_000, false)
	s.refuse = func(e outbox.Event) *outbox.Refusal {
		if takes.Load() {
			return nil
		}
		return refuse(e)
	}
	h.Append(t, false, want...)
	r := relay(b, s, outbox.Options{Waker: waker, Poll: time.Hour, Batch: 8, Attempts: 1_000})
	start := time.Now()
	if n, err := r.Pass(t.Context()); n != len(want)-3 || err != nil {
		t.Errorf("%d events before the first pause, want %d, %v", n, len(want)-3, err)
	}
	same(t, "left", waitingAt(t, b, start), nil)
	takes.Store(true)
	got := func() []outbox.Event {
		run(t, r)
		return s.await(t, len(want))
	}()
	same(t, "published", inOrder(t, got), want)
	if len(dead(t, b)) != 0 {
		t.Error("it was set aside")
	}
}

type latePoll struct{ outbox.Box }

func (b latePoll) Claim(ctx context.Context, holder string, lease time.Duration, parts outbox.Parts) (outbox.Parts, error) {
	for parts&all == 0 {
		ready, _, err := b.Next(ctx, query(all, 1))
		if err != nil {
			return 0, err
		}
		if len(ready) > 0 {
			break
		}
	}
	return b.Box.Claim(ctx, holder, lease, parts)
}

func refusedAfterPoll(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	want := story(1, 2)
	s.refuse = refusal(want[0], 1_000, false)
	h.Append(t, false, want...)
	r := relay(latePoll{b}, s, outbox.Options{Poll: time.Hour, Attempts: 1_000})
	if n, err := r.Pass(t.Context()); n != 0 || err != nil {
		t.Errorf("%d events before the first pause, %v", n, err)
	}
	s.refuse = refusal(want[0], 1, false)
	run(t, r)
	same(t, "published", inOrder(t, s.await(t, len(want))), want)
}

func setAside(t *testing.T, h Harness) {
	b, s, waker := h.Box(t), newSink(), outbox.NewWaker()
	want := story(5, 4)
	no := event(1, 4, 2)
	s.refuse = refusal(no, 100, false)
	h.Append(t, false, want...)
	counted := make(chan int, 1)
	run(t, relay(b, s, outbox.Options{Waker: waker, Poll: 50 * time.Millisecond, Attempts: 3, ObserveDead: func(n int) {
		select {
		case counted <- n:
		default:
		}
	}}))
	got := s.await(t, len(want)-1)
	slices.SortFunc(got, less)
	same(t, "published", got, without(want, no))
	died(t, b, no, 3, "the name of the topic is not valid")
	late := time.After(time.Minute)
	for n := 0; n != 1; {
		select {
		case n = <-counted:
		case <-late:
			t.Fatalf("%d events were counted, want one", n)
		}
	}
}

func permanent(t *testing.T, h Harness) {
	b, s := h.Box(t), newSink()
	want := story(5, 4)
	no := want[5]
	s.refuse = refusal(no, 1, true)
	h.Append(t, false, want...)
	if n, err := relay(b, s, outbox.Options{Batch: 8}).Pass(t.Context()); n != len(want)-1 || err != nil {
		t.Errorf("%d of %d, %v", n, len(want)-1, err)
	}
	slices.SortFunc(s.published, less)
	same(t, "published", s.published, without(want, no))
	same(t, "left", waiting(t, b), nil)
	died(t, b, no, 1, "the name of the topic is not valid")
}

func isolated(t *testing.T, h Harness) {
	for name, fail := range map[string]func() (int, error){
		"an error": func() (int, error) { return 0, errors.New("too large") },
		"a panic":  func() (int, error) { panic("too large") },
	} {
		b, s := h.Box(t), newSink()
		want := story(5, 4)
		no := event(1, 4, 2)
		s.fail = func(_ int, events []outbox.Event) (int, error) {
			if slices.ContainsFunc(events, func(e outbox.Event) bool { return e.ID() == no.ID() }) {
				return fail()
			}
			return 0, nil
		}
		h.Append(t, false, want...)
		r := relay(b, s, outbox.Options{Attempts: 1})
		if n, err := r.Pass(t.Context()); n != len(want)-1 || err != nil {
			t.Errorf("%s: %d of %d, %v", name, n, len(want)-1, err)
		}
		got, _ := s.first()
		slices.SortFunc(got, less)
		same(t, name+": published", got, without(want, no))
		same(t, name+": left", waiting(t, b), nil)
		if list := dead(t, b); len(list) != 1 || list[0].ID() != no.ID() {
			t.Errorf("%s: %v was set aside", name, list)
		}
		if ok, err := b.DropDead(t.Context(), no.ID()); !ok || err != nil {
			t.Errorf("%s: not dropped, %v", name, err)
		}
	}
}

func listDead(t *testing.T, b outbox.Box, at time.Time) (got []outbox.Event) {
	t.Helper()
	for after := (outbox.ID{}); ; after = got[len(got)-1].ID() {
		page, err := b.ListDead(t.Context(), after, 3)
		if err != nil || len(page) > 3 {
			t.Fatal(len(page), err)
		}
		for _, d := range page {
			if d.Attempts != 1 || d.Reason != "no" || !d.DiedAt.Equal(at) {
				t.Errorf("%+v", d)
			}
			got = append(got, d.Event)
		}
		if len(page) < 3 {
			return got
		}
	}
}

func deadEvents(t *testing.T, h Harness) {
	b := h.Box(t)
	want := story(5, 4)
	h.Append(t, false, want...)
	at := time.Date(2026, 11, 22, 1, 2, 3, 4000, time.UTC)
	for i, e := range found(t, b, want...) {
		err := b.Refuse(t.Context(), e, "no", func(n int) outbox.Decision {
			if n != 1 {
				t.Errorf("attempt %d", n)
			}
			return outbox.Decision{SetAside: i%3 != 0, At: at, Next: at.Add(time.Hour)}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var aside []outbox.Event
	for i, e := range want {
		if i%3 != 0 {
			aside = append(aside, e)
		}
	}
	same(t, "listed", listDead(t, b, at), aside)

	tryOnce := func(what string, do func(outbox.ID) (bool, error), id outbox.ID, want bool) {
		t.Helper()
		if ok, err := do(id); ok != want || err != nil {
			t.Errorf("%s %v: %t, %v", what, id, ok, err)
		}
	}
	retry := func(id outbox.ID) (bool, error) { return b.RetryDead(t.Context(), id) }
	drop := func(id outbox.ID) (bool, error) { return b.DropDead(t.Context(), id) }
	tryOnce("retry", retry, aside[0].ID(), true)
	tryOnce("retry", retry, aside[0].ID(), false)
	tryOnce("drop", drop, aside[0].ID(), false)
	tryOnce("drop", drop, aside[1].ID(), true)
	tryOnce("drop", drop, aside[1].ID(), false)
	tryOnce("retry", retry, want[0].ID(), false)
	tryOnce("drop", drop, want[0].ID(), false)
	tryOnce("drop", drop, outbox.ID{Owner: id(9), Stream: id(9), Seq: 9}, false)
	if n, err := b.CountDead(t.Context()); n != len(aside)-2 || err != nil {
		t.Errorf("%d events are left, %v", n, err)
	}

	q := query(all, 1000)
	q.Now = at.Add(2 * time.Hour)
	events, _, err := b.Next(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var ready []outbox.Event
	for i, e := range want {
		if i%3 == 0 || e.ID() == aside[0].ID() {
			ready = append(ready, e)
		}
	}
	slices.SortFunc(events, less)
	same(t, "to be published", events, ready)
}
