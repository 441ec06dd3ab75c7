package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

func mutationChecks() []check {
	return []check{
		{"Replay", replay},
		{"KeyReused", keyReused},
		{"OtherKeys", otherKeys},
		{"ErrorsAreNotStored", errorsAreNotStored},
		{"EverythingOrNothing", everythingOrNothing},
		{"EventsInOrder", eventsInOrder},
		{"ManyEvents", manyEvents},
		{"EventsOfSessions", eventsOfSessions},
		{"Storm", storm},
		{"TimeOfTheDatabase", timeOfTheDatabase},
	}
}

// replay: the same request is done once and has the same answer, byte for byte.
func replay(_ *testing.T, u *user) {
	for _, want := range []guest.Answer{
		{Status: 201, ContentType: "application/json", Location: "/x", Body: []byte(`{"b": 1.0,  "a":"\u00e9"}`)},
		{Status: 204},
		{Status: 409, ContentType: "application/problem+json", Body: []byte{0, 255, 10}},
	} {
		m := u.mutation()
		calls := 0
		for i := range 3 {
			got, replayed, err := u.h.Store.Mutate(u.t.Context(), m, func(tx guest.Tx) (guest.Answer, error) {
				calls++
				return want, tx.Append(u.event(tx.Now()))
			})
			suite.Must(u.t, "Mutate", err)
			if len(got.Body) == 0 {
				got.Body = nil
			}
			suite.Equal(u.t, "answer", got, want)
			suite.Equal(u.t, "replayed", replayed, i > 0)
		}
		suite.Equal(u.t, "calls", calls, 1)
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 3)
}

// keyReused: another request with a key is refused, and not done.
func keyReused(_ *testing.T, u *user) {
	m := u.mutation()
	run := func() error {
		_, _, err := u.h.Store.Mutate(u.t.Context(), m, func(tx guest.Tx) (guest.Answer, error) { return ok, tx.Append(u.event(tx.Now())) })
		return err
	}
	suite.Must(u.t, "the first", run())
	m.Digest[31]++
	if err := run(); !errors.Is(err, guest.ErrKeyReused) {
		u.t.Errorf("another request: %v", err)
	}
	m.Digest[31]--
	suite.Must(u.t, "the first again", run())
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
}

// otherKeys: a key belongs to a session and a route.
func otherKeys(_ *testing.T, u *user) {
	m := u.mutation()
	route, session := m, m
	route.Route, session.Session = "DELETE /test", u.other().session
	for name, m := range map[string]guest.Mutation{"first": m, "other route": route, "other session": session} {
		_, replayed, err := u.h.Store.Mutate(u.t.Context(), m, func(guest.Tx) (guest.Answer, error) { return ok, nil })
		suite.Must(u.t, name, err)
		suite.Equal(u.t, name+" replayed", replayed, false)
	}
}

var errTest = fault.New(fault.Invalid, "refused by the test")

// errorsAreNotStored: a request that fails has no effect, and its key may be used again.
func errorsAreNotStored(_ *testing.T, u *user) {
	m := u.mutation()
	_, _, err := u.h.Store.Mutate(u.t.Context(), m, func(tx guest.Tx) (guest.Answer, error) {
		_, _, err := tx.AddWish(wish(1))
		return ok, errors.Join(err, tx.Append(u.event(tx.Now())), errTest)
	})
	if !errors.Is(err, errTest) {
		u.t.Errorf("got %v", err)
	}
	suite.Equal(u.t, "wishes", len(u.wishes(10)), 0)
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 0)
	m.Digest[0]++
	_, replayed, err := u.h.Store.Mutate(u.t.Context(), m, func(guest.Tx) (guest.Answer, error) { return ok, nil })
	if err != nil || replayed {
		u.t.Errorf("the key again: %v, %v", replayed, err)
	}
}

// everythingOrNothing: a transaction sees its own changes.
func everythingOrNothing(_ *testing.T, u *user) {
	u.mutate(func(tx guest.Tx) error {
		first, added, err := tx.AddWish(wish(1))
		suite.Must(u.t, "AddWish", err)
		again, addedAgain, err := tx.AddWish(wish(1))
		suite.Must(u.t, "AddWish", err)
		suite.Equal(u.t, "added", []bool{added, addedAgain}, []bool{true, false})
		suite.Equal(u.t, "the entry", again, first)
		noted, err := tx.SetNote(property(1), "note")
		suite.Must(u.t, "SetNote", err)
		suite.Equal(u.t, "note", noted.Note, "note")
		_, removed, err := tx.RemoveWish(property(1))
		suite.Equal(u.t, "removed", removed, true)
		return err
	})
	suite.Equal(u.t, "wishes", len(u.wishes(10)), 0)
}

// eventsInOrder: events of a session have the order of the mutations.
func eventsInOrder(_ *testing.T, u *user) {
	var want []guest.ID
	for range 20 {
		u.mutate(func(tx guest.Tx) error {
			a, b := u.event(tx.Now()), u.event(tx.Now())
			b.Retention = guest.Audit
			want = append(want, a.ID, b.ID)
			return errors.Join(tx.Append(a), tx.Append(b))
		})
	}
	var got []guest.ID
	for _, e := range u.h.Events(u.t, u.session) {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want) {
		u.t.Errorf("events %v, want %v", got, want)
	}
}

// manyEvents: events that are appended at once have their order, and everything that they
// say. None is nothing.
func manyEvents(_ *testing.T, u *user) {
	var want []guest.Event
	u.mutate(func(tx guest.Tx) error {
		want = want[:0]
		for n := range guest.MaxBatch {
			e := u.event(tx.Now())
			e.Type, e.Subject, e.Payload = fmt.Sprint("test.v", n), fmt.Sprint("subject ", n), fmt.Appendf(nil, `{"b": "\"{}%d\u00e9",  "a":1.0}`, n)
			e.SampleRate, e.Retention = n%3*10, []string{guest.Operational, guest.Audit}[n%2]
			want = append(want, e)
		}
		return errors.Join(tx.Append(), tx.Append(want[:1]...), tx.Append(want[1:]...))
	})
	suite.Equal(u.t, "events", u.h.Events(u.t, u.session), want)
}

// storm: many requests with one key have one effect and one answer.
func storm(_ *testing.T, u *user) {
	const racers = 60
	m := u.mutation()
	var done, replayed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			a, again, err := u.h.Store.Mutate(u.t.Context(), m, func(tx guest.Tx) (guest.Answer, error) {
				return guest.Answer{Status: 201, Body: []byte{byte(i)}}, tx.Append(u.event(tx.Now()))
			})
			switch {
			case errors.Is(err, guest.ErrInFlight):
				refused.Add(1)
			case err != nil:
				u.t.Errorf("racer %d: %v", i, err)
			case again:
				replayed.Add(1)
			default:
				done.Add(1)
				suite.Equal(u.t, "own answer", a.Body, []byte{byte(i)})
			}
		})
	}
	all.Wait()
	if done.Load() != 1 || replayed.Load()+refused.Load() != racers-1 {
		u.t.Errorf("%d did it, %d were replayed, %d refused", done.Load(), replayed.Load(), refused.Load())
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
}

// timeOfTheDatabase: the time of a transaction is that of the database, to the
// microsecond.
func timeOfTheDatabase(_ *testing.T, u *user) {
	u.mutate(func(tx guest.Tx) error {
		now := tx.Now()
		if now.Nanosecond()%1000 != 0 || now.Sub(clock.System()).Abs().Minutes() > 5 {
			u.t.Errorf("now is %v", now)
		}
		return nil
	})
}

// eventsOfSessions: events that belong to no mutation are appended in the order of their
// sessions, each with its trace.
func eventsOfSessions(_ *testing.T, u *user) {
	other := u.other()
	var all []guest.SessionEvent
	want := map[guest.ID][]guest.ID{}
	for i := range 6 {
		of := []*user{u, other}[i%2]
		e := guest.SessionEvent{Session: of.session, Event: of.event(clock.System().Truncate(time.Microsecond))}
		if i == 0 {
			e.Trace = traced
		}
		all, want[of.session] = append(all, e), append(want[of.session], e.ID)
	}
	rest, err := u.h.Store.AppendEvents(u.t.Context(), all)
	suite.Must(u.t, "AppendEvents", err)
	suite.Equal(u.t, "rest", len(rest), 0)
	for session, ids := range want {
		var got []guest.ID
		for _, e := range u.h.Events(u.t, session) {
			got = append(got, e.ID)
		}
		suite.Equal(u.t, "events", got, ids)
	}
	suite.Equal(u.t, "event", u.h.Events(u.t, u.session)[0].At, all[0].At.UTC())
	suite.Equal(u.t, "headers", all[0].Headers(traced), `{"traceparent":"`+traced.Parent+`","tracestate":"a=b\"\\,c=d"}`)
	rest, err = u.h.Store.AppendEvents(u.t.Context(), nil)
	suite.Must(u.t, "AppendEvents without events", err)
	suite.Equal(u.t, "rest", len(rest), 0)
}
