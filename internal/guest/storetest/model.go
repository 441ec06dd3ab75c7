package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
)

func modelChecks() []check { return []check{{"RandomSteps", randomSteps}} }

// machine takes random steps on a store and on a model of it, and compares after each
// step all that can be seen.
type machine struct {
	*user
	rows    map[string]guest.Wish // by property, removed ones too
	events  []guest.ID
	waiting []guest.ID // the events that are not published
	done    []guest.Mutation
}

func randomSteps(t *testing.T, u *user) {
	var last *machine
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t = rt
		if last != nil {
			last.t = rt
			last.empty() // the model reads the outbox by session after each step, and no index has all its events
		}
		m := &machine{user: u.other(), rows: map[string]guest.Wish{}}
		last = m
		return map[string]func(*rapid.T){
			"add": m.stepAdd, "add more": m.stepAdd, "note": m.stepNote, "remove": m.stepRemove, "clear": m.stepClear, "repeat": m.stepRepeat,
			"publish": m.stepPublish, "erase": m.stepErase, "": m.compare,
		}
	})
}

// empty deletes everything. A walk that failed may have left another state than that of the
// model, so errors do not matter.
func (m *machine) empty() {
	_, err := m.publish(len(m.waiting) + 1) // one may have been appended by the step that failed
	_, _, err2 := m.h.Store.Erase(m.t.Context(), m.session)
	_ = errors.Join(err, err2)
}

// publish marks at most limit events as published, the first ones.
func (m *machine) publish(limit int) (published []guest.ID, err error) {
	box := m.h.Store.Outbox()
	// The limit of a query may be split among the partitions, and a session has one.
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

// do runs a mutation that appends an event, and may fail in the end.
func (m *machine) do(rt *rapid.T, fn func(guest.Tx) error) (committed bool) {
	mutation := m.mutation()
	fails := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
	var e guest.Event
	_, _, err := m.h.Store.Mutate(rt.Context(), mutation, func(tx guest.Tx) (guest.Answer, error) {
		if err := fn(tx); err != nil {
			return ok, err
		}
		e = m.event(tx.Now())
		if err := tx.Append(e); err != nil {
			return ok, err
		}
		if fails {
			return ok, errTest
		}
		return ok, nil
	})
	switch {
	case fails && errors.Is(err, errTest):
		return false
	case err != nil:
		rt.Fatalf("Mutate: %v", err)
	}
	m.events, m.waiting, m.done = append(m.events, e.ID), append(m.waiting, e.ID), append(m.done, mutation)
	return true
}

var properties = rapid.IntRange(0, 5)

func (m *machine) stepAdd(rt *rapid.T) {
	w := wish(properties.Draw(rt, "property"))
	w.Note = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "note")
	before, exists := m.rows[w.Property]
	var got guest.Wish
	var added bool
	if !m.do(rt, func(tx guest.Tx) (err error) { got, added, err = tx.AddWish(w); return err }) {
		return
	}
	live := exists && before.Removed.IsZero()
	switch {
	case added == live:
		rt.Fatalf("added %v, but it was live: %v", added, live)
	case live:
		suite.Equal(m.t, "the live entry", got, before)
	default:
		if exists {
			w.ID = before.ID
		}
		w.Added = got.Added
		suite.Equal(m.t, "the new entry", got, w)
		m.rows[w.Property] = w
	}
}

func (m *machine) stepNote(rt *rapid.T) {
	p := property(properties.Draw(rt, "property"))
	w, exists := m.rows[p]
	if !exists || !w.Removed.IsZero() {
		if err := m.try(func(tx guest.Tx) error { _, err := tx.SetNote(p, "x"); return err }); !errors.Is(err, guest.ErrNoWish) {
			rt.Fatalf("SetNote without an entry: %v", err)
		}
		return
	}
	w.Note = rapid.SampledFrom([]string{"", "c", "d"}).Draw(rt, "note")
	if m.do(rt, func(tx guest.Tx) error { _, err := tx.SetNote(p, w.Note); return err }) {
		m.rows[p] = w
	}
}

func (m *machine) stepRemove(rt *rapid.T) {
	p := property(properties.Draw(rt, "property"))
	w, exists := m.rows[p]
	var removed bool
	var at time.Time
	if !m.do(rt, func(tx guest.Tx) (err error) { _, removed, err = tx.RemoveWish(p); at = tx.Now(); return err }) {
		return
	}
	suite.Equal(m.t, "removed", removed, exists && w.Removed.IsZero())
	if removed {
		w.Removed = at
		m.rows[p] = w
	}
}

func (m *machine) stepClear(rt *rapid.T) {
	if m.do(rt, clearSession) {
		clear(m.rows)
		m.done = m.done[len(m.done)-1:]
	}
}

// stepRepeat repeats a request, which is not done again.
func (m *machine) stepRepeat(rt *rapid.T) {
	if len(m.done) == 0 {
		rt.Skip("nothing to repeat")
	}
	_, replayed, err := m.h.Store.Mutate(rt.Context(), rapid.SampledFrom(m.done).Draw(rt, "mutation"), func(tx guest.Tx) (guest.Answer, error) {
		return ok, clearSession(tx)
	})
	if err != nil || !replayed {
		rt.Fatalf("repeated: %v, %v", replayed, err)
	}
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
	erased.Remains = nil // that is in the tests of each engine
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
