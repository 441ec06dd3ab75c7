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
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
)

func mutationChecks() []check {
	return []check{
		{"Replay", replay},
		{"KeyReused", keyReused},
		{"OtherKeys", otherKeys},
		{"Denied", denied},
		{"LaterAnswers", laterAnswers},
		{"ErrorsAreNotStored", errorsAreNotStored},
		{"EverythingOrNothing", everythingOrNothing},
		{"EventsInOrder", eventsInOrder},
		{"ManyEvents", manyEvents},
		{"EventsOfSessions", eventsOfSessions},
		{"Storm", storm},
		{"TimeOfTheDatabase", timeOfTheDatabase},
	}
}

// replay checks that a repeated request gets the first result, even if the data has changed since.
func replay(_ *testing.T, u *user) {
	u.eachStep(func(u *user, s step) {
		before := len(u.h.Events(u.t, u.session))
		m := u.mutation()
		want, err := s.do(u, m, newEvent())
		suite.Must(u.t, s.name, err)
		suite.Equal(u.t, s.name+": replayed", want.replayed, false)
		want.replayed = true
		after := u.see()
		for range 2 {
			got, err := s.do(u, m, newEvent())
			suite.Must(u.t, s.name+", again", err)
			suite.Equal(u.t, s.name+", again", got, want)
			suite.Equal(u.t, s.name+", again: the session", u.see(), after)
		}
		suite.Equal(u.t, s.name+": events", len(u.h.Events(u.t, u.session)), before+s.events)
		if s.name == "Clear" || s.name == "Link" { // these steps delete the session's other answers
			return
		}
		_, err = u.note(standing, "other")
		if s.name != "RemoveWish" && s.name != "RemoveSold" {
			suite.Must(u.t, "ChangeWish", err)
		}
		got, err := s.do(u, m, newEvent())
		suite.Must(u.t, s.name+", after another", err)
		suite.Equal(u.t, s.name+", after another", got, want)
	})
}

func keyReused(_ *testing.T, u *user) {
	u.eachStep(func(u *user, s step) {
		m := u.mutation()
		_, err := s.do(u, m, newEvent())
		suite.Must(u.t, s.name, err)
		after := u.see()
		m.Digest[31]++
		if _, err := s.do(u, m, newEvent()); !errors.Is(err, guest.ErrKeyReused) {
			u.t.Errorf("%s: another request: %v", s.name, err)
		}
		m.Digest[31]--
		again, err := s.do(u, m, newEvent())
		suite.Must(u.t, s.name+" again", err)
		suite.Equal(u.t, s.name+" again", again.replayed, true)
		suite.Equal(u.t, s.name+": the session", u.see(), after)
	})
}

func otherKeys(_ *testing.T, u *user) {
	m := u.mutation()
	route, session := m, m
	route.Route, session.Session = "DELETE /test", u.other().session
	for name, m := range map[string]guest.Mutation{"first": m, "other route": route, "other session": session} {
		o, err := u.h.Store.Record(u.t.Context(), telemetry.Record{Mutation: m})
		suite.Must(u.t, name, err)
		suite.Equal(u.t, name+" replayed", o.Replayed, false)
	}
}

var errTest = errcode.New(errcode.Invalid, "refused by the test")

// denied checks that a denied request does not use up its key, and that a denied repeat gets the stored result.
func denied(_ *testing.T, u *user) {
	u.eachStep(func(u *user, s step) {
		before, m := u.see(), u.mutation()
		m.Denied = errTest
		if _, err := s.do(u, m, newEvent()); !errors.Is(err, errTest) {
			u.t.Errorf("%s: %v", s.name, err)
		}
		suite.Equal(u.t, s.name+": the session", u.see(), before)
		for i, denied := range []error{nil, errTest} {
			m.Denied = denied
			got, err := s.do(u, m, newEvent())
			suite.Must(u.t, s.name, err)
			suite.Equal(u.t, s.name+": replayed", got.replayed, i == 1)
		}
	})
}

// laterAnswers checks that a request is not processed again if a later release processed it, although this release
// cannot decode the answer.
func laterAnswers(_ *testing.T, u *user) {
	u.eachStep(func(u *user, s step) {
		before, m := u.see(), u.mutation()
		u.h.AddAnswer(u.t, m, guest.StoredAnswer{Version: 99, Body: []byte("?")})
		_, err := s.do(u, m, newEvent())
		suite.WantCode(u.t, s.name, err, errcode.Unavailable)
		suite.Equal(u.t, s.name+": the session", u.see(), before)
	})
}

func errorsAreNotStored(_ *testing.T, u *user) {
	m := u.mutation()
	note := func(n int) (guest.Once[guest.ChangedWish], error) {
		return u.h.Store.ChangeWish(u.t.Context(), guest.ChangeWish{Mutation: m, Item: u.item(n), Note: new("a")})
	}
	if _, err := note(1); !errors.Is(err, guest.ErrNoWish) {
		u.t.Errorf("got %v", err)
	}
	u.add(u.wish(2))
	m.Digest[0]++
	o, err := note(2)
	if err != nil || o.Replayed {
		u.t.Errorf("the key again: %v, %v", o.Replayed, err)
	}
}

// everythingOrNothing makes the last change of a step fail: the outbox already contains its event.
func everythingOrNothing(_ *testing.T, u *user) {
	u.eachStep(func(u *user, s step) {
		if s.events == 0 {
			return
		}
		there := u.event(clock.System())
		u.record(there)
		before, m := u.see(), u.mutation()
		if _, err := s.do(u, m, there.ID); err == nil {
			u.t.Errorf("%s: an event was appended twice", s.name)
		}
		suite.Equal(u.t, s.name+": the session", u.see(), before)
		m.Digest[0]++
		again, err := s.do(u, m, newEvent())
		suite.Must(u.t, s.name+" again", err)
		suite.Equal(u.t, s.name+" again: replayed", again.replayed, false)
	})
}

func eventsInOrder(_ *testing.T, u *user) {
	var want []guest.ID
	for range 20 {
		a, b := u.event(clock.System()), u.event(clock.System())
		b.Retention = guest.Audit
		want = append(want, a.ID, b.ID)
		u.record(a, b)
	}
	var got []guest.ID
	for _, e := range u.h.Events(u.t, u.session) {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want) {
		u.t.Errorf("events %v, want %v", got, want)
	}
}

func manyEvents(_ *testing.T, u *user) {
	var want []guest.Event
	for n := range telemetry.MaxBatch {
		e := u.event(time.Time{})
		e.Type, e.Subject, e.Payload = fmt.Sprint("test.v", n), fmt.Sprint("subject ", n), fmt.Appendf(nil, `{"b": "\"{}%d\u00e9",  "a":1.0}`, n)
		e.SampleRate, e.Retention = n%3*10, []string{guest.Operational, guest.Audit}[n%2]
		want = append(want, e)
	}
	u.record()
	u.record(want...)
	got := u.h.Events(u.t, u.session)
	if len(got) != len(want) || got[0].At.Sub(clock.System()).Abs() > 5*time.Minute {
		u.t.Fatalf("events %v", got)
	}
	for i := range want {
		want[i].At = got[0].At
	}
	suite.Equal(u.t, "events", got, want)
}

func storm(_ *testing.T, u *user) {
	const racers = 60
	m := u.mutation()
	var done, replayed, refused atomic.Int64
	var ids sync.Map
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			w := u.wish(1)
			o, err := u.addWish(m, w)
			switch {
			case errors.Is(err, guest.ErrInFlight):
				refused.Add(1)
				return
			case err != nil:
				u.t.Errorf("racer %d: %v", i, err)
				return
			case o.Replayed:
				replayed.Add(1)
			default:
				done.Add(1)
				suite.Equal(u.t, "own result", o.Result.Wish.ID, w.ID)
			}
			ids.Store(o.Result.Wish.ID, true)
		})
	}
	all.Wait()
	if done.Load() != 1 || replayed.Load()+refused.Load() != racers-1 {
		u.t.Errorf("%d did it, %d were replayed, %d refused", done.Load(), replayed.Load(), refused.Load())
	}
	entries := u.wishes(10)
	suite.Equal(u.t, "entries", len(entries), 1)
	ids.Range(func(id, _ any) bool { suite.Equal(u.t, "result", id.(guest.ID), entries[0].ID); return true })
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
}

func timeOfTheDatabase(_ *testing.T, u *user) {
	now := u.add(u.wish(1)).Added
	if now.Nanosecond()%1000 != 0 || now.Sub(clock.System()).Abs().Minutes() > 5 {
		u.t.Errorf("now is %v", now)
	}
	suite.Equal(u.t, "event", u.h.Events(u.t, u.session)[0].At, now)
}

// eventsOfSessions checks events outside mutations: they are ordered per session and keep their traces.
func eventsOfSessions(_ *testing.T, u *user) {
	other := u.other()
	var all []telemetry.SessionEvent
	want := map[guest.ID][]guest.ID{}
	for i := range 6 {
		of := []*user{u, other}[i%2]
		e := telemetry.SessionEvent{Session: of.session, Event: of.event(clock.System().Truncate(time.Microsecond))}
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
