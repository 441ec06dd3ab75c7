package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/retention"
	"holdfast/internal/suite"
)

func refusalChecks() []check {
	return []check{
		{"Add", addRefusals},
		{"Race", refusalRace},
		{"Fails", refusalFails},
	}
}

// refusal returns refused attempts. first and last are in seconds after t0.
func (u *user) refusal(h guest.ID, attempts int64, first, last int) handoffs.NewRefusal {
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	return handoffs.NewRefusal{
		Refusal: handoffs.Refusal{Handoff: h, Reason: handoffs.ReasonConsumed, Attempts: attempts, First: at(first), Last: at(last)}, Session: u.session,
		Event: guest.Event{
			ID: guest.NewID(guest.EventPrefix, clock.System()), Type: "replay.v1", Subject: string(h), Retention: guest.Audit, Payload: []byte(`{}`),
		},
	}
}

func (u *user) refusals(h guest.ID) (all []handoffs.Refusal) {
	u.t.Helper()
	rows, err := u.h.Store.Refusals(u.t.Context(), 1_000_000)
	suite.Must(u.t, "Refusals", err)
	if !slices.IsSortedFunc(rows, func(a, b handoffs.Refusal) int { return b.Last.Compare(a.Last) }) {
		u.t.Errorf("not ordered: %+v", rows)
	}
	return slices.DeleteFunc(rows, func(r handoffs.Refusal) bool { return r.Handoff != h })
}

func addRefusals(_ *testing.T, u *user) {
	one, other := guest.NewID(guest.HandoffPrefix, clock.System()), guest.NewID(guest.HandoffPrefix, clock.System())
	add := func(all ...handoffs.NewRefusal) {
		u.t.Helper()
		suite.Must(u.t, "AddRefusals", u.h.Store.AddRefusals(u.t.Context(), all))
	}
	add()
	first := u.refusal(one, 1, 10, 10)
	add(first)
	suite.Equal(u.t, "first", u.refusals(one), []handoffs.Refusal{first.Refusal})
	add(u.refusal(one, 5, 11, 20), u.refusal(other, 2, 1, 2))
	add(u.refusal(one, 1, 5, 12))
	want := first.Refusal
	want.Attempts, want.First, want.Last = 7, t0.Add(5*time.Second), t0.Add(20*time.Second)
	suite.Equal(u.t, "in all", u.refusals(one), []handoffs.Refusal{want})
	suite.Equal(u.t, "another handoff", u.refusals(other)[0].Attempts, int64(2))
	newReason := u.refusal(one, 3, 30, 31)
	newReason.Reason = "another"
	add(newReason)
	suite.Equal(u.t, "two reasons", u.refusals(one), []handoffs.Refusal{newReason.Refusal, want})
	events := u.h.Events(u.t, u.session)
	suite.Equal(u.t, "events", len(events), 3)
	suite.Equal(u.t, "the event of the first attempt", events[0].ID, first.Event.ID)
	rows, err := u.h.Store.Refusals(u.t.Context(), 1)
	suite.Must(u.t, "Refusals", err)
	suite.Equal(u.t, "limit", len(rows), 1)
}

type counting struct {
	backend.Store
	writes atomic.Int64
}

func (c *counting) AddRefusals(ctx context.Context, all []handoffs.NewRefusal) error {
	c.writes.Add(1)
	return c.Store.AddRefusals(ctx, all)
}

// refusalRace makes many attempts in two processes. One attempt consumes the handoff; the others share a row and
// an event, and cause few writes.
func refusalRace(_ *testing.T, u *user) {
	const attempts = 200
	tenant := newTenant()
	store := &counting{Store: u.h.Store}
	u.h.Store = store
	processes := []*handoffs.Service{u.minter(tenant), u.minter(tenant)}
	o, err := u.mintFor(processes[0], u.mutation(), tenant, u.item(1))
	suite.Must(u.t, "Mint", err)
	minted := o.Result
	before := len(u.h.Events(u.t, u.session))
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() {
			_, err := processes[i%2].Consume(u.t.Context(), handoffs.ConsumeRequest{
				ID: string(minted.ID), Token: minted.Token, By: "booking", Key: guestKey(i),
			})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, handoffs.ErrConsumed):
				u.t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	suite.Equal(u.t, "consumed", won.Load(), int64(1))
	suite.Equal(u.t, "writes before the flush", store.writes.Load() <= 2, true)
	for range 2 {
		for _, p := range processes {
			suite.Must(u.t, "FlushRefusals", p.FlushRefusals(u.t.Context()))
		}
	}
	suite.Equal(u.t, "writes", store.writes.Load() <= 4, true)
	rows := u.refusals(minted.ID)
	suite.Equal(u.t, "rows", len(rows), 1)
	suite.Equal(u.t, "attempts", rows[0].Attempts, int64(attempts-1))
	suite.Equal(u.t, "reason", rows[0].Reason, handoffs.ReasonConsumed)
	suite.Equal(u.t, "in order", rows[0].First.After(rows[0].Last), false)
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), before+1)

	// After a pause, the next attempt is written immediately.
	suite.Equal(u.t, "refused", second2(pair2(processes[0].Consume(u.t.Context(), handoffs.ConsumeRequest{
		ID: string(minted.ID), Token: minted.Token, By: "other", Key: "late",
	}))), error(handoffs.ErrConsumed))
	suite.Equal(u.t, "attempts, later", u.refusals(minted.ID)[0].Attempts, int64(attempts))
	suite.Equal(u.t, "events, later", len(u.h.Events(u.t, u.session)), before+1)
}

func guestKey(i int) string { return "key-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) }

func pair2(r handoffs.Received, err error) (bool, error) { return r.Suspect, err }

func refusalFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	trip.FailEach(t, "AddRefusals", func() (func() error, func(string)) {
		r := u.refusal(guest.NewID(guest.HandoffPrefix, clock.System()), 1, 1, 1)
		before := len(u.h.Events(t, u.session))
		run := func() error { return u.h.Store.AddRefusals(t.Context(), []handoffs.NewRefusal{r}) }
		return run, func(what string) {
			suite.Must(t, what+": repeated", run())
			suite.Equal(t, what+": events", len(u.h.Events(t, u.session)), before+1)
			if n := u.refusals(r.Handoff)[0].Attempts; n < 1 || n > 2 { // 2 if only the commit's result was lost
				t.Errorf("%s: %d attempts", what, n)
			}
		}
	})
}

func dropRefusals(_ *testing.T, u *user) {
	var all []handoffs.NewRefusal
	for n := range 3 {
		all = append(all, u.refusal(guest.NewID(guest.HandoffPrefix, clock.System()), 1, n, n))
	}
	suite.Must(u.t, "AddRefusals", u.h.Store.AddRefusals(u.t.Context(), all))
	suite.Equal(u.t, "early", u.drop(retention.JobRefusals, t0, 10), 0)
	late := t0.Add(time.Minute)
	suite.Equal(u.t, "late, in pieces", []int{u.drop(retention.JobRefusals, late, 2), u.drop(retention.JobRefusals, late, 2)}, []int{2, 1})
}
