package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/retention"
	"holdfast/internal/suite"
)

func handoffKeyChecks() []check {
	return []check{
		{"Life", keyLife},
		{"Revoke", revokeKeys},
		{"RotateUnderLoad", rotateUnderLoad},
		{"Fails", changeKeysFails},
		{"Restored", restoredDatabase},
		{"Witness", witness},
		{"Tenants", tenantKeys},
		{"TenantsRestored", tenantKeysRestored},
		{"TenantsAtOnce", tenantKeysAtOnce},
	}
}

func (u *user) states() (all []handoffs.KeyState) {
	u.t.Helper()
	keys, err := u.h.Store.HandoffKeys(u.t.Context(), "")
	suite.Must(u.t, "HandoffKeys", err)
	for _, k := range keys {
		if (k.State == handoffs.KeyRetired) == (len(k.Secret) > 0) || (k.State == handoffs.KeyRetired) == k.Retired.IsZero() {
			u.t.Errorf("key %+v", k)
		}
		all = append(all, k.State)
	}
	return all
}

func keyLife(_ *testing.T, u *user) {
	ring := u.ring()
	suite.Equal(u.t, "first", u.states(), []handoffs.KeyState{handoffs.KeyActive})
	old := u.newHandoff(2 * time.Minute)
	key, err := ring.Add(u.t.Context())
	suite.Must(u.t, "Add", err)
	if bytes.Contains(key.Secret, []byte(key.ID)) || len(key.Secret) < 32+12 {
		u.t.Errorf("the secret of %s is not encrypted", key.ID)
	}
	suite.Equal(u.t, "the old one signs", u.newHandoff(time.Minute).Key, old.Key)
	_, err = ring.Activate(u.t.Context(), key.ID)
	suite.Must(u.t, "Activate", err)
	suite.Equal(u.t, "replaced", u.states(), []handoffs.KeyState{handoffs.KeyVerifyOnly, handoffs.KeyActive})
	suite.Equal(u.t, "the new one signs", u.newHandoff(time.Minute).Key, key.ID)
	u.consume(attempt(old, "booking", "a"))
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"a key with tokens": {second2(ring.Retire(u.t.Context(), old.Key)), handoffs.ErrKeyHasTokens},
		"the active key":    {second2(ring.Retire(u.t.Context(), key.ID)), handoffs.ErrKeyActive},
		"a missing key":     {second2(ring.Activate(u.t.Context(), "missing")), handoffs.ErrNoSuchKey},
	} {
		if !errors.Is(c.err, c.want) {
			u.t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	unused, err := ring.Add(u.t.Context())
	suite.Must(u.t, "Add", err)
	_, err = ring.Retire(u.t.Context(), unused.ID)
	suite.Must(u.t, "Retire", err)
	if _, err := ring.Activate(u.t.Context(), unused.ID); !errors.Is(err, handoffs.ErrKeyRetired) {
		u.t.Errorf("a retired key: %v", err)
	}
	suite.Equal(u.t, "at the end", u.states(), []handoffs.KeyState{handoffs.KeyVerifyOnly, handoffs.KeyActive, handoffs.KeyRetired})
}

func second2[T any](_ T, err error) error { return err }

func revokeKeys(_ *testing.T, u *user) {
	ring := u.ring()
	first := u.newHandoff(time.Minute)
	_, err := ring.Rotate(u.t.Context())
	suite.Must(u.t, "Rotate", err)
	second := u.newHandoff(time.Minute)
	_, err = ring.Revoke(u.t.Context(), second.Key)
	suite.Must(u.t, "Revoke", err)
	u.refused("revoked", attempt(second, "booking", "a"), handoffs.ErrToken)
	u.consume(attempt(first, "booking", "a"))
	third := u.newHandoff(time.Minute)
	_, err = ring.RevokeAll(u.t.Context())
	suite.Must(u.t, "RevokeAll", err)
	u.refused("all revoked", attempt(third, "booking", "a"), handoffs.ErrToken)
	u.refused("consumed before", attempt(first, "booking", "a"), handoffs.ErrToken)
	u.consume(attempt(u.newHandoff(time.Minute), "booking", "a"))
	suite.Equal(u.t, "active keys", len(slices.DeleteFunc(u.states(), func(s handoffs.KeyState) bool { return s != handoffs.KeyActive })), 1)
}

func rotateUnderLoad(t *testing.T, u *user) {
	ring := u.ring()
	done := make(chan struct{})
	var all sync.WaitGroup
	for n := range 4 {
		guest1 := u.other()
		guest1.keys = n * 100_000
		if n%2 == 1 && u.h.Again != nil {
			guest1.h.Store = u.h.Again(t)
		}
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				h := guest1.newHandoff(time.Minute)
				guest1.consume(attempt(h, "booking", "a"))
			}
		})
	}
	for range 20 {
		_, err := ring.Rotate(u.t.Context())
		suite.Must(u.t, "Rotate", err)
	}
	close(done)
	all.Wait()
}

func changeKeysFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	ring := u.ring()
	for name, change := range map[string]func() error{
		"Rotate":    func() error { return second2(ring.Rotate(t.Context())) },
		"RevokeAll": func() error { return second2(ring.RevokeAll(t.Context())) },
	} {
		trip.FailEach(t, name, func() (func() error, func(string)) {
			before := u.states()
			return change, func(what string) {
				after := u.states()
				if !slices.Equal(after, before) && len(after) != len(before)+1 {
					t.Errorf("%s: keys %v, before %v", what, after, before)
				}
				u.newHandoff(time.Minute)
			}
		})
	}
}

// restoredDatabase checks that after a database restore no handoff is minted or consumed until the keys are
// replaced. SQLite cannot detect a restore itself: see witness.
func restoredDatabase(_ *testing.T, u *user) {
	ring := u.ring()
	h := u.newHandoff(time.Minute)
	restored, err := ring.Settle(u.t.Context(), nil)
	suite.Must(u.t, "Settle", err)
	suite.Equal(u.t, "restored, before", restored, false)
	if u.h.SetIncarnation == nil {
		return
	}
	u.h.SetIncarnation(u.t, "former")
	u.refused("restored", attempt(h, "booking", "a"), handoffs.ErrRestored)
	if _, err := u.tryMint(u.newMint(time.Minute)); !errors.Is(err, handoffs.ErrRestored) {
		u.t.Errorf("mint: %v", err)
	}
	for i := range 2 {
		restored, err := ring.Settle(u.t.Context(), nil)
		suite.Must(u.t, "Settle", err)
		suite.Equal(u.t, "restored", restored, i == 0)
	}
	u.refused("settled", attempt(h, "booking", "a"), handoffs.ErrToken)
	u.consume(attempt(u.newHandoff(time.Minute), "booking", "a"))
}

func witness(_ *testing.T, u *user) {
	ring, err := handoffs.NewKeys(u.h.Store, "a secret of this test with at least 32 bytes", nil, issuer)
	suite.Must(u.t, "NewHandoffKeys", err)
	for _, step := range []struct {
		w        handoffs.Witness
		restored bool
	}{
		{handoffs.Witness{Next: "1"}, false}, // a new database
		{handoffs.Witness{Last: "1", Next: "2"}, false},
		{handoffs.Witness{Last: "2", Next: "3"}, false},
		{handoffs.Witness{Last: "2", Next: "4"}, true},
		{handoffs.Witness{Last: "4", Next: "5"}, false},
		{handoffs.Witness{Next: "6"}, true}, // the witness was lost
	} {
		before := len(u.states())
		restored, err := ring.Settle(u.t.Context(), &step.w)
		suite.Must(u.t, "Settle", err)
		suite.Equal(u.t, step.w.Next, restored, step.restored)
		if after := len(u.states()); step.restored && after != before+1 {
			u.t.Errorf("%s: %d keys, before %d", step.w.Next, after, before)
		}
	}
}

func dropHandoffs(_ *testing.T, u *user) {
	u.ring()
	for range 3 {
		u.newHandoff(time.Minute)
	}
	drop := func(before time.Time, limit int) int {
		n, err := u.h.Store.Drop(u.t.Context(), retention.JobHandoffs, before, limit)
		suite.Must(u.t, "Drop", err)
		return n
	}
	now := clock.System()
	suite.Equal(u.t, "early", drop(now.Add(-time.Minute), 10), 0)
	late := now.Add(time.Minute)
	suite.Equal(u.t, "late, in pieces", []int{drop(late, 2), drop(late, 2), drop(late, 2)}, []int{2, 1, 0})
	suite.Equal(u.t, "history", len(u.handoffs(10)), 0)
}

func consumeFails(t *testing.T, u *user) {
	trip := &suite.Trip{}
	u = newUser(t, u.h.Faulty(t, trip.Fault))
	u.ring()
	trip.FailEach(t, "Consume", func() (func() error, func(string)) {
		h := u.newHandoff(time.Minute)
		a := attempt(h, "booking", "a")
		return func() error { return second2(pair(u.h.Store.Consume(t.Context(), a))) }, func(what string) {
			_, _, err := u.h.Store.Consume(t.Context(), a)
			suite.Must(t, what+": repeated", err)
		}
	})
}

func pair(h handoffs.Handoff, repeated bool, err error) (bool, error) {
	return repeated && h.ID != "", err
}
