// Package storetest is the conformance suite for outbox.Box.
package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/outbox"
	"holdfast/internal/suite"
)

var Table = outbox.Table{Name: "test_outbox", Owner: "tenant_id", Stream: "install_id", Type: "uuid"}

type Harness struct {
	Box func(t testing.TB) outbox.Box

	Append func(t testing.TB, undo bool, events ...outbox.Event)

	Lapse func(t testing.TB)

	// Topic, if set, opens a table with Table.ByTopic for a topic.
	Topic func(t testing.TB, topic string) outbox.Box
}

// Topic is the topic of all the suite's events.
const Topic = "put"

// Run runs the suite. open creates an outbox for each case.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	suite.Suite[Harness]{
		Groups: groups(),
		New:    func(t *testing.T, _ suite.Group[Harness]) Harness { return open(t) },
	}.Run(t)
}

func groups() []suite.Group[Harness] {
	return []suite.Group[Harness]{
		{Name: "Table", Own: true, Cases: []suite.Case[Harness]{
			{"Values", values},
			{"RolledBack", rolledBack},
			{"Pages", pages},
			{"Lease", lease},
			{"LeaseRunsOut", leaseRunsOut},
		}},
		{Name: "Relay", Own: true, Cases: []suite.Case[Harness]{
			{"Order", order},
			{"SinkFails", sinkFails},
			{"DoneFails", doneFails},
			{"TwoRelays", twoRelays},
			{"LateSink", lateSink},
			{"Sharing", sharing},
			{"Wake", wake},
			{"WakeWhileHeld", wakeWhileHeld},
			{"LeftBehind", leftBehind},
		}},
		{Name: "Refused", Own: true, Cases: []suite.Case[Harness]{
			{"RefusedThenTaken", refusedThenTaken},
			{"RefusedAfterPoll", refusedAfterPoll},
			{"SetAside", setAside},
			{"Permanent", permanent},
			{"Isolated", isolated},
			{"DeadEvents", deadEvents},
		}},
	}
}

// RunByTopic runs the suite on a table with Table.ByTopic that also contains another topic.
func RunByTopic(t *testing.T, open func(t testing.TB) Harness) {
	all := append(groups(), suite.Group[Harness]{Name: "Topics", Own: true, Cases: []suite.Case[Harness]{
		{"Separate", separateTopics},
		{"Unavailable", unavailableTopic},
	}})
	others := storyOf("other", 2*outbox.Partitions, 1)
	for _, g := range all {
		for i, c := range g.Cases {
			g.Cases[i].Run = func(t *testing.T, h Harness) {
				h.Append(t, false, others...)
				c.Run(t, h)
				same(t, "events of the other topic", waiting(t, h.Topic(t, "other")), others)
			}
		}
	}
	suite.Suite[Harness]{
		Groups: all,
		New:    func(t *testing.T, _ suite.Group[Harness]) Harness { return open(t) },
	}.Run(t)
}

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

var start = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)

func event(owner, stream, seq int) outbox.Event {
	return outbox.Event{
		Owner: id(owner), Stream: id(stream), Seq: int64(seq), Topic: Topic, Key: fmt.Sprintf("settings/%d", seq),
		Payload: json.RawMessage(fmt.Sprintf(`{"revision":%d}`, seq)), At: start.Add(time.Duration(seq) * time.Microsecond),
	}
}

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

func waiting(t testing.TB, b outbox.Box) []outbox.Event {
	t.Helper()
	return waitingAt(t, b, time.Now())
}

func waitingAt(t testing.TB, b outbox.Box, now time.Time) []outbox.Event {
	t.Helper()
	q := query(all, 1_000_000)
	q.Now = now
	events, more, err := b.Next(t.Context(), q)
	if err != nil || more != 0 {
		t.Fatal(more, err)
	}
	slices.SortFunc(events, less)
	return events
}

func found(t testing.TB, b outbox.Box, events ...outbox.Event) []outbox.Event {
	t.Helper()
	in := map[outbox.ID]outbox.Event{}
	for _, e := range waiting(t, b) {
		in[e.ID()] = e
	}
	events = slices.Clone(events)
	for i, e := range events {
		if e, ok := in[e.ID()]; ok {
			events[i] = e
		}
	}
	return events
}

const all outbox.Parts = 1<<outbox.Partitions - 1

func query(parts outbox.Parts, limit int) outbox.Query {
	return outbox.Query{Parts: parts, Limit: limit, Now: time.Now()}
}

func done(t testing.TB, b outbox.Box, events ...outbox.Event) {
	t.Helper()
	if err := b.Done(t.Context(), "tester", 0, events); err != nil {
		t.Errorf("delete %d events: %v", len(events), err)
	}
}

func same(t testing.TB, what string, got, want []outbox.Event) {
	t.Helper()
	got = slices.Clone(got)
	for i := range got {
		got[i].Position = 0
	}
	if len(got) == len(want) && (len(got) == 0 || reflect.DeepEqual(got, want)) {
		return
	}
	t.Errorf("%s: %d events\n%s\nwant %d\n%s", what, len(got), head(got), len(want), head(want))
}

func head(events []outbox.Event) string {
	lines := make([]string, 0, 20)
	for _, e := range events[:min(len(events), cap(lines))] {
		lines = append(lines, fmt.Sprintf("%s %s %d %q %q %s %s", e.Owner, e.Stream, e.Seq, e.Topic, e.Key, e.Payload, e.At))
	}
	return strings.Join(lines, "\n")
}

func values(t *testing.T, h Harness) {
	b := h.Box(t)
	var want []outbox.Event
	for i, payload := range []string{
		`{"b": 1, "a" : [ 1e400, "\u0000\ud800", null ], "a":2}`, `null`, `"text"`, `12345678901234567890.10`, `[]`,
	} {
		e := event(1, 2, i+1)
		if h.Topic == nil {
			e.Topic = ""
		}
		e.Key, e.Payload = "ключ/'\"\\\n😀", json.RawMessage(payload)
		want = append(want, e)
	}
	far := event(1, 2, 1)
	far.Seq, far.Key, far.At = 1<<63-1, "", time.UnixMicro(1).UTC()
	want = append(want, far)
	h.Append(t, false, want...)
	same(t, "as appended", waiting(t, b), want)
	in := found(t, b, want...)
	done(t, b, in...)
	same(t, "afterwards", waiting(t, b), nil)
	done(t, b, in...)
	h.Append(t, false, event(3, 4, 1))
	done(t, b, in...)
	same(t, "the other event", waiting(t, b), []outbox.Event{event(3, 4, 1)})
}

func rolledBack(t *testing.T, h Harness) {
	h.Append(t, true, event(1, 1, 1))
	h.Append(t, false, event(1, 1, 2))
	h.Append(t, true, event(1, 1, 3))
	same(t, "in the table", waiting(t, h.Box(t)), []outbox.Event{event(1, 1, 2)})
}

func pages(t *testing.T, h Harness) {
	b := h.Box(t)
	want := story(5, 4)
	for seq := range int64(4) {
		for _, e := range slices.Backward(want) {
			if e.Seq == seq+1 {
				h.Append(t, false, e)
			}
		}
	}
	next := map[string]int64{}
	left := slices.Clone(want)
	for rounds := 0; len(left) > 0; rounds++ {
		got, more, err := b.Next(t.Context(), query(all, 7))
		if err != nil || len(got) == 0 || len(got) > outbox.Partitions || rounds > len(want) {
			t.Fatalf("batch %d has %d events, %v", rounds, len(got), err)
		}
		for _, e := range got {
			if next[e.Stream]++; e.Seq != next[e.Stream] {
				t.Errorf("stream %s: got %d, want %d", e.Stream, e.Seq, next[e.Stream])
			}
		}
		done(t, b, got...)
		if left = waiting(t, b); len(left) > 0 && more == 0 {
			t.Fatalf("batch %d was reported as the last, %d events are left", rounds, len(left))
		}
	}
	h.Append(t, false, want...)
	some := outbox.PartsOf(part(want[0]), part(want[len(want)-1]))
	got, _, err := b.Next(t.Context(), query(some, 1000))
	slices.SortFunc(got, less)
	inSome := slices.DeleteFunc(slices.Clone(want), func(e outbox.Event) bool { return !some.Has(part(e)) })
	same(t, "in some partitions", got, inSome)
	if err != nil || len(inSome) == len(want) {
		t.Errorf("%d events of %d, %v", len(inSome), len(want), err)
	}
	done(t, b, found(t, b, want[1], want[8], event(9, 9, 9))...)
	same(t, "left", waiting(t, b), slices.Concat(want[:1], want[2:8], want[9:]))
}

func part(e outbox.Event) int { return outbox.Partition(e.Owner, e.Stream) }

func claim(t testing.TB, b outbox.Box, holder string, length time.Duration, parts, want outbox.Parts) {
	t.Helper()
	if got, err := b.Claim(t.Context(), holder, length, parts); err != nil || got != want {
		t.Errorf("%s claimed %b: %b, %v; want %b", holder, parts, got, err, want)
	}
}

func release(t testing.TB, b outbox.Box, holder string, parts outbox.Parts) {
	t.Helper()
	if err := b.Release(t.Context(), holder, parts); err != nil {
		t.Error(err)
	}
}

func lease(t *testing.T, h Harness) {
	one, two := h.Box(t), h.Box(t)
	low, high, odd := outbox.PartsOf(0, 1, 2), outbox.PartsOf(13, 14, 15), outbox.PartsOf(1, 13)
	claim(t, one, "one", time.Hour, low, low)
	claim(t, two, "two", time.Hour, high, high)
	claim(t, one, "one", time.Hour, odd, outbox.PartsOf(1))
	claim(t, two, "two", time.Hour, all, all&^low)
	claim(t, one, "one", time.Hour, low, low)
	release(t, two, "two", low)
	claim(t, two, "two", time.Hour, low, 0)
	release(t, one, "one", outbox.PartsOf(0))
	claim(t, two, "two", time.Hour, low, outbox.PartsOf(0))
	claim(t, one, "one", time.Hour, outbox.PartsOf(0), 0)
	if err := one.Done(t.Context(), "one", low, nil); err != nil {
		t.Error(err)
	}
	claim(t, two, "two", time.Hour, low, low)
	watch := outbox.PartsOf(outbox.Leases - 1)
	claim(t, one, "one", time.Hour, watch, watch)
	claim(t, two, "two", time.Hour, watch, 0)
	h.Lapse(t)
	claim(t, one, "one", time.Hour, all, all)
	claim(t, two, "two", time.Hour, all, 0)
	// The current clock could not have granted these leases.
	claim(t, two, "two", time.Minute, low, low)
	claim(t, one, "one", time.Hour, all, all&^low)
}

func leaseRunsOut(t *testing.T, h Harness) {
	b := h.Box(t)
	const length = 100 * time.Millisecond
	before := time.Now()
	claim(t, b, "one", length, all, all)
	for {
		mine, err := b.Claim(t.Context(), "two", length, outbox.PartsOf(3))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); mine != 0 {
			if took < length*9/10 {
				t.Errorf("the lease lasted %s, want %s", took, length)
			}
			return
		} else if took > time.Minute {
			t.Fatal("the lease does not expire")
		}
	}
}
