package storetest

import (
	"testing"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
)

func faultChecks() []check {
	return []check{{"Mutate", mutateFails}, {"Consume", consumeFails}, {"AppendEvents", appendEventsFails}}
}

// mutateFails checks that a failed step has no effect, or its full effect if only the result was lost. A repeat
// must return the right result.
func mutateFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	u.ring()
	for _, p := range profiles {
		mutationsFail(t, u.in(p), trip)
	}
}

func mutationsFail(t *testing.T, u *user, trip *suite.Trip) {
	t.Helper()
	for _, s := range u.steps() {
		trip.FailEach(t, s.name, func() (operation func() error, check func(string)) {
			u := u.other()
			u.add(u.wish(standing))
			before, m := u.see(), u.mutation()
			run := func() (done, error) { return s.do(u, m, newEvent()) }
			return func() error { _, err := run(); return err }, func(what string) {
				between := u.see()
				got, err := run()
				suite.Must(t, what+": repeated", err)
				if got.replayed == (between == before) {
					t.Errorf("%s: replayed: %v, before %s, after it %s", what, got.replayed, before, between)
				}
				after := u.see()
				if after == before || got.replayed && after != between {
					t.Errorf("%s: at the end %s, after the failure %s, before %s", what, after, between, before)
				}
				suite.Equal(t, what+": events", len(u.h.Events(t, u.session)), 1+s.events)
			}
		})
	}
}

func retentionFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	late := clock.System().Add(2 * guest.MutationLife)
	for _, job := range retention.Jobs {
		drop := func() error { _, err := u.h.Store.Drop(t.Context(), job, late, 10); return err }
		trip.FailEach(t, string(job), func() (func() error, func(string)) {
			u.add(u.wish(1))
			u.remove(1)
			return drop, func(what string) { suite.Equal(t, what+": entries", len(u.wishes(10)), 0) }
		})
	}
}

func appendEventsFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	events := 0
	trip.FailEach(t, "events", func() (func() error, func(string)) {
		all := []telemetry.SessionEvent{{Session: u.session, Event: u.event(clock.System())}, {Session: u.session, Event: u.event(clock.System())}}
		run := func() error { _, err := u.h.Store.AppendEvents(t.Context(), all); return err }
		return run, func(what string) {
			suite.Must(t, what+": again", run())
			events += len(all)
			suite.Equal(t, what+": events", len(u.h.Events(t, u.session)), events)
		}
	})
}
