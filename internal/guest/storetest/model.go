package storetest

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
)

func modelChecks() []check {
	return []check{{"RandomSteps", randomSteps}, {"RandomUserSteps", randomUserSteps}, {"TwoClients", twoClients}}
}

// machine applies random steps to a store and its model, and compares them after each step.
type machine struct {
	*user
	rows    map[string]guest.Wish // by item, including removed entries
	events  []guest.ID
	waiting []guest.ID // unpublished events
	done    []request
}

type request struct {
	again  func() (done, error)
	result string
}

func randomSteps(t *testing.T, u *user) {
	var last *machine
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t, u.profile = rt, rapid.SampledFrom(profiles).Draw(rt, "profile")
		if last != nil {
			last.t = rt
			last.empty() // keeps the outbox small: the model reads it by session after each step, without an index
		}
		m := &machine{user: u.other(), rows: map[string]guest.Wish{}}
		last = m
		return map[string]func(*rapid.T){
			"add": m.stepAdd, "add more": m.stepAdd, "change": m.stepChange, "remove": m.stepRemove, "record": m.stepRecord, "clear": m.stepClear, "repeat": m.stepRepeat,
			"publish": m.stepPublish, "erase": m.stepErase, "": m.compare,
		}
	})
}

// empty deletes all data. It ignores errors, because a failed walk may have left another state than the model.
func (m *machine) empty() {
	_, err := m.publish(len(m.waiting) + 1) // the failed step may have appended another event
	_, _, err2 := m.h.Store.Erase(m.t.Context(), m.session)
	_ = errors.Join(err, err2)
}

func (m *machine) publish(limit int) (published []guest.ID, err error) {
	box := m.h.Store.Outbox()
	// The limit of a query may be split among partitions, and a session belongs to one partition.
	events, _, err := box.Next(m.t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: outbox.Partitions * limit, Now: clock.System()})
	if err == nil {
		events = events[:min(limit, len(events))]
		err = box.Done(m.t.Context(), "test", 0, events)
	}
	for _, e := range events {
		published = append(published, guest.ID(e.Name))
	}
	return published, err
}

func (m *machine) event(rt *rapid.T) (id guest.ID, fails bool) {
	if len(m.events) > 0 && rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
		return rapid.SampledFrom(m.events).Draw(rt, "event"), true
	}
	return newEvent(), false
}

func did[R any](m *machine, again func() (guest.Once[R], error), r R, events ...guest.ID) {
	d, _ := doneOf(guest.Once[R]{Result: r}, nil)
	m.done = append(m.done, request{func() (done, error) { return doneOf(again()) }, d.result})
	m.events, m.waiting = append(m.events, events...), append(m.waiting, events...)
}

var items = rapid.IntRange(0, 5)

func (m *machine) stepAdd(rt *rapid.T) {
	a := guest.AddWish{Mutation: m.mutation(), Wish: m.wish(items.Draw(rt, "item")), Most: m.quantity(rapid.IntRange(3, 9).Draw(rt, "most"))}
	a.Wish.Quantity = m.quantity(rapid.IntRange(1, 3).Draw(rt, "quantity"))
	a.Wish.Note = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "note")
	a.Wish.Tenant = rapid.SampledFrom([]string{tenant, tenant, tenant, second}).Draw(rt, "tenant")
	var fails bool
	a.Event, fails = m.event(rt)
	before, exists := m.rows[a.Wish.Item]
	run := func() (guest.Once[guest.AddedWish], error) { return m.h.Store.AddWish(m.t.Context(), a) }
	o, err := run()
	want := guest.AddedWish{Outcome: guest.WishAdded, Wish: a.Wish}
	switch {
	case exists && before.Tenant != a.Wish.Tenant:
		want = guest.AddedWish{Outcome: guest.WishOfOtherTenant}
	case exists && before.Removed.IsZero() && m.profile != shop:
		want = guest.AddedWish{Outcome: guest.WishKept, Wish: before}
	case exists && before.Removed.IsZero() && before.Quantity+a.Wish.Quantity > a.Most:
		want = guest.AddedWish{Outcome: guest.TooManyWishes, Quantity: before.Quantity + a.Wish.Quantity, Most: a.Most}
	case fails:
		if err == nil {
			rt.Fatal("an event was appended twice")
		}
		return
	case exists && before.Removed.IsZero():
		before.Quantity += a.Wish.Quantity
		want = guest.AddedWish{Outcome: guest.WishIncreased, Wish: before}
	case exists:
		want.Wish.ID = before.ID
	}
	suite.Must(m.t, "AddWish", err)
	if want.Outcome != guest.WishAdded {
		suite.Equal(m.t, "AddWish", o.Result, want)
		if want.Outcome == guest.WishIncreased {
			m.rows[a.Wish.Item] = want.Wish
			did(m, run, o.Result, a.Event)
			return
		}
		did(m, run, o.Result)
		return
	}
	want.Wish.Added = o.Result.Wish.Added
	suite.Equal(m.t, "AddWish", o.Result, want)
	m.rows[a.Wish.Item] = want.Wish
	did(m, run, o.Result, a.Event)
}

func (m *machine) stepChange(rt *rapid.T) {
	n := guest.ChangeWish{Mutation: m.mutation(), Item: m.item(items.Draw(rt, "item"))}
	n.Note = new(rapid.SampledFrom([]string{"", "c", "d"}).Draw(rt, "note"))
	n.Quantity = m.quantity(rapid.IntRange(1, 3).Draw(rt, "quantity"))
	var fails bool
	n.Event, fails = m.event(rt)
	run := func() (guest.Once[guest.ChangedWish], error) { return m.h.Store.ChangeWish(m.t.Context(), n) }
	o, err := run()
	w, exists := m.rows[n.Item]
	if !exists || !w.Removed.IsZero() {
		if !errors.Is(err, guest.ErrNoWish) {
			rt.Fatalf("ChangeWish without an entry: %v", err)
		}
		return
	}
	changed := w.Quantity != n.Quantity
	if changed && fails {
		if err == nil {
			rt.Fatal("an event was appended twice")
		}
		return
	}
	suite.Must(m.t, "ChangeWish", err)
	w.Note, w.Quantity = *n.Note, n.Quantity
	suite.Equal(m.t, "ChangeWish", o.Result.Wish, w)
	m.rows[n.Item] = w
	if changed {
		did(m, run, o.Result, n.Event)
	} else {
		did(m, run, o.Result)
	}
}

func (m *machine) stepRemove(rt *rapid.T) {
	r := guest.RemoveWish{Mutation: m.mutation(), Item: m.item(items.Draw(rt, "item"))}
	var fails bool
	r.Event, fails = m.event(rt)
	run := func() (guest.Once[guest.RemovedWish], error) { return m.h.Store.RemoveWish(m.t.Context(), r) }
	o, err := run()
	w, exists := m.rows[r.Item]
	switch {
	case !exists || !w.Removed.IsZero():
		suite.Must(m.t, "RemoveWish", err)
		suite.Equal(m.t, "removed", o.Result.Removed, false)
		did(m, run, o.Result)
	case fails:
		if err == nil {
			rt.Fatal("an event was appended twice")
		}
	default:
		suite.Must(m.t, "RemoveWish", err)
		suite.Equal(m.t, "removed", o.Result.Removed, true)
		w.Removed = clock.System()
		m.rows[r.Item] = w
		did(m, run, o.Result, r.Event)
	}
}

func (m *machine) stepRecord(rt *rapid.T) {
	r := telemetry.Record{Mutation: m.mutation(), IDs: []guest.ID{"mpv_a", "mpv_b"}}
	a, b := m.user.event(clock.System()), m.user.event(clock.System())
	var fails bool
	b.ID, fails = m.event(rt)
	r.Events = []guest.Event{a, b}
	run := func() (guest.Once[telemetry.Recorded], error) { return m.h.Store.Record(m.t.Context(), r) }
	o, err := run()
	if fails {
		if err == nil {
			rt.Fatal("an event was appended twice")
		}
		return
	}
	suite.Must(m.t, "Record", err)
	did(m, run, o.Result, a.ID, b.ID)
}

func (m *machine) stepClear(rt *rapid.T) {
	c := guest.Clear{Mutation: m.mutation()}
	run := func() (guest.Once[guest.Cleared], error) { return m.h.Store.Clear(m.t.Context(), c) }
	o, err := run()
	suite.Must(m.t, "Clear", err)
	suite.Equal(m.t, "answers", len(o.Result.Answers), len(m.done))
	clear(m.rows)
	m.done = nil
	did(m, run, o.Result)
}

func (m *machine) stepRepeat(rt *rapid.T) {
	if len(m.done) == 0 {
		rt.Skip("nothing to repeat")
	}
	r := rapid.SampledFrom(m.done).Draw(rt, "request")
	got, err := r.again()
	suite.Must(m.t, "repeat", err)
	suite.Equal(m.t, "repeated", got, done{result: r.result, replayed: true})
}

func (m *machine) stepPublish(rt *rapid.T) {
	limit := rapid.IntRange(1, 5).Draw(rt, "limit")
	published, err := m.publish(limit)
	suite.Must(m.t, "publish", err)
	limit = min(limit, len(m.waiting))
	suite.Equal(m.t, "published", published, m.waiting[:limit])
	m.waiting = m.waiting[limit:]
}

func (m *machine) stepErase(rt *rapid.T) {
	erased, answers, err := m.h.Store.Erase(rt.Context(), m.session)
	suite.Must(m.t, "Erase", err)
	erased.Remains = nil // tested by each engine
	suite.Equal(m.t, "erased", erased, guest.Erased{
		Wishes: len(m.rows), Answers: len(m.done), Events: len(m.events) - len(m.waiting), Kept: len(m.waiting),
	})
	suite.Equal(m.t, "answers", len(answers), len(m.done))
	clear(m.rows)
	m.events, m.done = slices.Clone(m.waiting), nil
}

func (m *machine) compare(rt *rapid.T) {
	var want []guest.Wish
	for _, w := range m.rows {
		if w.Removed.IsZero() {
			want = append(want, w)
		}
	}
	slices.SortFunc(want, newestFirst)
	if got := m.wishes(2); !slices.Equal(got, want) {
		rt.Fatalf("wishes %v, want %v", got, want)
	}
	var got []guest.ID
	for _, e := range m.h.Events(rt, m.session) {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, m.events) {
		rt.Fatalf("events %v, want %v", got, m.events)
	}
}
