package storetest

import (
	"testing"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

func faultChecks() []check {
	return []check{{"Mutate", mutateFails}, {"Consume", consumeFails}, {"AppendEvents", appendEventsFails}}
}

// mutateFails: a mutation whose engine fails at any point has no effect, or all of it if
// only its answer was lost, and the repeated request has the right answer.
func mutateFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	round := 0
	for name, fn := range map[string]func(guest.Tx) error{
		"add":    func(tx guest.Tx) error { _, _, err := tx.AddWish(wish(round)); return err },
		"note":   func(tx guest.Tx) error { _, err := tx.SetNote(property(1000), "x"); return err },
		"remove": func(tx guest.Tx) error { _, _, err := tx.RemoveWish(property(1000)); return err },
		"clear":  clearSession,
	} {
		trip.FailEach(t, name, func() (operation func() error, check func(string)) {
			round++
			if err := u.try(func(tx guest.Tx) error { _, _, err := tx.AddWish(wish(1000)); return err }); err != nil {
				t.Fatal(err)
			}
			before, events := u.wishes(1000), len(u.h.Events(t, u.session))
			m := u.mutation()
			run := func() (bool, error) {
				_, replayed, err := u.h.Store.Mutate(t.Context(), m, func(tx guest.Tx) (guest.Answer, error) {
					if err := fn(tx); err != nil {
						return ok, err
					}
					return ok, tx.Append(u.event(tx.Now()))
				})
				return replayed, err
			}
			operation = func() error { _, err := run(); return err }
			return operation, func(what string) {
				done := len(u.h.Events(t, u.session)) > events
				if !done {
					suite.Equal(t, what+": wishes", u.wishes(1000), before)
				}
				replayed, err := run()
				if err != nil || replayed != done {
					t.Errorf("%s: repeated: %v, %v; its event is there: %v", what, replayed, err, done)
				}
				suite.Equal(t, what+": events", len(u.h.Events(t, u.session)), events+1)
			}
		})
	}
}

func retentionFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	late := clock.System().Add(2 * guest.MutationLife)
	for _, job := range guest.Jobs {
		drop := func() error { _, err := u.h.Store.Drop(t.Context(), job, late, 10); return err }
		trip.FailEach(t, string(job), func() (func() error, func(string)) {
			u.add(wish(1))
			u.remove(1)
			return drop, func(what string) { suite.Equal(t, what+": entries", len(u.wishes(10)), 0) }
		})
	}
}

// appendEventsFails: events that are appended again after any failure are there once.
func appendEventsFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	events := 0
	trip.FailEach(t, "events", func() (func() error, func(string)) {
		all := []guest.SessionEvent{{Session: u.session, Event: u.event(clock.System())}, {Session: u.session, Event: u.event(clock.System())}}
		run := func() error { _, err := u.h.Store.AppendEvents(t.Context(), all); return err }
		return run, func(what string) {
			suite.Must(t, what+": again", run())
			events += len(all)
			suite.Equal(t, what+": events", len(u.h.Events(t, u.session)), events)
		}
	})
}
