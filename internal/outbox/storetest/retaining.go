package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"holdfast/internal/ident"
	"holdfast/internal/outbox"
)

// KeptRow is a retaining table's row with an event from the suite.
type KeptRow struct {
	ID, OrderingKey, Topic, Subject, Payload, Headers, Class string
	At                                                       time.Time
}

// NewKeptRow puts data that has no column into the headers.
func NewKeptRow(e outbox.Event) KeptRow {
	headers, err := json.Marshal(map[string]string{"owner": e.Owner, "stream": e.Stream, "seq": strconv.FormatInt(e.Seq, 10)})
	if err != nil {
		panic(err)
	}
	class := e.Class
	if class == "" {
		class = "operational"
	}
	return KeptRow{
		ID: ident.New(), OrderingKey: fmt.Sprintf("%s/%s/%x", e.Owner, e.Stream, part(e)), Topic: e.Topic, Subject: e.Key,
		Payload: string(e.Payload), Headers: string(headers), Class: class, At: e.At,
	}
}

// AsBox adapts a box with NewKeptRow rows to the suite's events.
func AsBox(b outbox.Retaining) outbox.Box { return adapted{b} }

type adapted struct{ outbox.Retaining }

func suiteEvent(e outbox.Event) outbox.Event {
	var h struct{ Owner, Stream, Seq string }
	if err := json.Unmarshal(e.Headers, &h); err != nil {
		panic(err)
	}
	seq, err := strconv.ParseInt(h.Seq, 10, 64)
	if err != nil {
		panic(err)
	}
	if part(e) != outbox.Partition(h.Owner, h.Stream) {
		panic("the table computes another partition")
	}
	class := e.Class
	if class != outbox.ClassAudit {
		class = ""
	}
	return outbox.Event{Owner: h.Owner, Stream: h.Stream, Seq: seq, Topic: e.Topic, Key: e.Key, Payload: e.Payload, At: e.At, Position: e.Position, Class: class}
}

func (a adapted) Next(ctx context.Context, q outbox.Query) ([]outbox.Event, outbox.Parts, error) {
	events, more, err := a.Retaining.Next(ctx, q)
	for i, e := range events {
		events[i] = suiteEvent(e)
	}
	return events, more, err
}

func (a adapted) dead(ctx context.Context) (list []outbox.DeadEvent, ids map[outbox.ID]outbox.ID, err error) {
	ids = map[outbox.ID]outbox.ID{}
	for after := (outbox.ID{}); ; {
		page, err := a.Retaining.ListDead(ctx, after, 3)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range page {
			after = d.ID()
			d.Event = suiteEvent(d.Event)
			ids[d.ID()] = after
			list = append(list, d)
		}
		if len(page) < 3 {
			slices.SortFunc(list, func(a, b outbox.DeadEvent) int { return less(a.Event, b.Event) })
			return list, ids, nil
		}
	}
}

func (a adapted) ListDead(ctx context.Context, after outbox.ID, limit int) ([]outbox.DeadEvent, error) {
	list, _, err := a.dead(ctx)
	if i := slices.IndexFunc(list, func(d outbox.DeadEvent) bool { return d.ID() == after }); i >= 0 {
		list = list[i+1:]
	}
	return list[:min(limit, len(list))], err
}

func (a adapted) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	_, ids, err := a.dead(ctx)
	if err != nil {
		return false, err
	}
	return a.Retaining.RetryDead(ctx, ids[id])
}

func (a adapted) DropDead(ctx context.Context, id outbox.ID) (bool, error) {
	_, ids, err := a.dead(ctx)
	if err != nil {
		return false, err
	}
	return a.Retaining.DropDead(ctx, ids[id])
}

// RunRetaining runs the suite on a retaining box, with additional cases.
func RunRetaining(t *testing.T, open func(t testing.TB) (Harness, outbox.Retaining)) {
	Run(t, func(t testing.TB) Harness {
		h, _ := open(t)
		return h
	})
	t.Run("Kept", func(t *testing.T) {
		t.Parallel()
		h, b := open(t)
		keptEvents(t, h, b)
	})
	t.Run("Audit", func(t *testing.T) {
		t.Parallel()
		h, b := open(t)
		auditIsNotSkipped(t, h, b)
	})
}

func keptEvents(t *testing.T, h Harness, b outbox.Retaining) {
	audit := event(1, 1, 3)
	audit.Class = outbox.ClassAudit
	h.Append(t, false, event(1, 1, 1), event(1, 1, 2), audit, event(1, 2, 1), event(1, 3, 1))
	events, _, err := b.Next(t.Context(), query(all, 1000))
	if err != nil || len(events) != 5 {
		t.Fatal(len(events), err)
	}
	if n, oldest, err := b.Backlog(t.Context()); n != 5 || !oldest.Equal(event(1, 1, 1).At) || err != nil {
		t.Errorf("backlog: %d since %s, %v", n, oldest, err)
	}
	next := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	refuse := func(e outbox.Event, d outbox.Decision) {
		if err := b.Refuse(t.Context(), e, "no", func(int) outbox.Decision { return d }); err != nil {
			t.Error(err)
		}
	}
	refuse(events[3], outbox.Decision{At: time.Now(), Next: next})
	refuse(events[4], outbox.Decision{At: time.Now(), SetAside: true})
	done(t, b, events[:3]...)
	waits, err := b.ListWaiting(t.Context(), 0, 10)
	if err != nil || len(waits) != 1 || waits[0].Name != events[3].Name || waits[0].Attempts != 1 || waits[0].Reason != "no" || !waits[0].Next.Equal(next) {
		t.Errorf("waiting: %+v, %v", waits, err)
	}
	if waits, err := b.ListWaiting(t.Context(), events[3].Position, 10); err != nil || len(waits) != 0 {
		t.Errorf("after the last one: %+v, %v", waits, err)
	}
	if at, found, err := b.FindWaiting(t.Context(), events[3].Name); !found || at != events[3].Position || err != nil {
		t.Errorf("found at %d, %v, %v", at, found, err)
	}
	for i := range events {
		if _, found, err := b.FindWaiting(t.Context(), events[i].Name); found != (i == 3) || err != nil {
			t.Errorf("event %d waits: %v, %v", i, found, err)
		}
	}
	if id, found, err := b.FindDead(t.Context(), events[4].Name); !found || id.Seq != events[4].Position || err != nil {
		t.Errorf("found %v, %v, %v", id, found, err)
	}
	if _, found, err := b.FindDead(t.Context(), events[3].Name); found || err != nil {
		t.Errorf("found, though it waits: %v", err)
	}
	publishedAgain(t, b, events)
	done(t, b, events[:3]...)
	later := time.Now().Add(time.Hour)
	for i, c := range []struct {
		class  string
		before time.Time
		limit  int
		want   int
	}{
		{"operational", time.Now().Add(-time.Hour), 10, 0},
		{"operational", later, 1, 1},
		{"operational", later, 10, 1},
		{"operational", later, 10, 0},
		{outbox.ClassAudit, later, 10, 1},
	} {
		if n, err := b.DropPublished(t.Context(), c.class, c.before, c.limit); n != c.want || err != nil {
			t.Errorf("%d: dropped %d, want %d, %v", i, n, c.want, err)
		}
	}
	if n, _, err := b.Backlog(t.Context()); n != 1 || err != nil {
		t.Errorf("backlog at the end: %d, %v", n, err)
	}
	if n, err := b.CountDead(t.Context()); n != 1 || err != nil {
		t.Errorf("%d are set aside, %v", n, err)
	}
}

func publishedAgain(t *testing.T, b outbox.Retaining, events []outbox.Event) {
	t.Helper()
	var want, got []string
	for _, e := range events[:3] {
		want = append(want, e.Name)
	}
	slices.Sort(want)
	for after := ""; ; {
		page, err := b.ListPublished(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			after = e.Name
			got = append(got, e.Name)
			i := slices.IndexFunc(events, func(o outbox.Event) bool { return o.Name == e.Name })
			if i < 0 || string(e.Payload) != string(events[i].Payload) || e.Position != events[i].Position || time.Since(e.Published) > time.Minute || time.Since(e.Published) < -time.Minute {
				t.Errorf("published: %+v", e)
			}
		}
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("published: %q, want %q", got, want)
	}
	names := []string{events[1].Name, events[0].Name, events[3].Name, events[4].Name, "none"}
	for _, want := range []int{2, 0} {
		if n, err := b.Republish(t.Context(), names); n != want || err != nil {
			t.Errorf("%d are queued again, want %d, %v", n, want, err)
		}
	}
	waits, err := b.ListWaiting(t.Context(), 0, 10)
	if err != nil || len(waits) != 3 || waits[0].Name != events[0].Name || waits[1].Name != events[1].Name || waits[0].Attempts != 0 || waits[0].Position != events[0].Position {
		t.Errorf("waiting: %+v, %v", waits, err)
	}
	if page, err := b.ListPublished(t.Context(), "", 10); err != nil || len(page) != 1 || page[0].Name != events[2].Name {
		t.Errorf("still published: %+v, %v", page, err)
	}
}

func auditIsNotSkipped(t *testing.T, h Harness, b outbox.Retaining) {
	s := newSink()
	audit, after, other := event(1, 1, 1), event(1, 1, 2), event(1, 2, 1)
	audit.Class = outbox.ClassAudit
	s.refuse = refusal(audit, 1_000, true)
	h.Append(t, false, audit, after, other)
	r := relay(h.Box(t), s, outbox.Options{Attempts: 1})
	if n, err := r.Pass(t.Context()); n != 1 || err != nil {
		t.Errorf("%d were published, want the other stream, %v", n, err)
	}
	if n, err := b.CountDead(t.Context()); n != 0 || err != nil {
		t.Errorf("%d are set aside, %v", n, err)
	}
	s.refuse = nil
	run(t, r)
	same(t, "published", inOrder(t, s.await(t, 3)), []outbox.Event{audit, after, other})
}
