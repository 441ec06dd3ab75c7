package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/handoff"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

func handoffChecks() []check {
	return []check{
		{"MintAndRead", mintAndRead},
		{"List", listHandoffs},
		{"ConsumeOnce", consumeOnce},
		{"Expired", consumeExpired},
		{"Edge", consumeAtTheEdge},
		{"Suspended", consumeSuspended},
		{"OtherKey", consumeOtherKey},
		{"OtherClaims", consumeOtherClaims},
		{"Campaign", consumeWithCampaign},
		{"Race", consumeRace},
		{"Clear", clearHandoffs},
		{"MintRollsBack", mintRollsBack},
		{"MintIsOneEvent", mintIsOneEvent},
		{"MintIsSealed", mintIsSealed},
		{"WrongRows", wrongHandoffs},
		{"ClockSetBack", consumeClockSetBack},
		{"VerifyChangesNothing", verifyChangesNothing},
		{"Model", handoffModel},
	}
}

func (u *user) ring() *handoffs.Keys {
	u.t.Helper()
	k := u.newKeys()
	_, err := k.Settle(u.t.Context(), nil)
	suite.Must(u.t, "Settle", err)
	return k
}

const issuer = "https://guests.example"

func (u *user) newKeys() *handoffs.Keys {
	u.t.Helper()
	k, err := handoffs.NewKeys(u.h.Store, strings.Repeat("k", 32), nil, issuer)
	suite.Must(u.t, "NewHandoffKeys", err)
	return k
}

func attempt(h handoffs.Handoff, by, key string) handoffs.Consumption {
	return handoffs.Consumption{ID: h.ID, Claims: handoffs.ClaimsOf(h), SignedBy: h.Key, By: by, Key: key}
}

func (u *user) handoff(id guest.ID) handoffs.Handoff {
	u.t.Helper()
	h, _, err := u.h.Store.Handoff(u.t.Context(), id)
	suite.Must(u.t, "Handoff", err)
	return h
}

func (u *user) consume(a handoffs.Consumption) (h handoffs.Handoff, repeated bool) {
	u.t.Helper()
	h, repeated, err := u.h.Store.Consume(u.t.Context(), a)
	suite.Must(u.t, "Consume", err)
	return h, repeated
}

func (u *user) refused(what string, a handoffs.Consumption, want error) {
	u.t.Helper()
	before, _, err := u.h.Store.Handoff(u.t.Context(), a.ID)
	suite.Must(u.t, "Handoff", err)
	if _, _, err := u.h.Store.Consume(u.t.Context(), a); !errors.Is(err, want) {
		u.t.Errorf("%s: %v, want %v", what, err, want)
	}
	suite.Equal(u.t, what+": the handoff", u.handoff(a.ID), before)
}

func mintAndRead(_ *testing.T, u *user) {
	u.ring()
	for _, campaign := range []string{"", `{"source":"ä"}`} {
		m := u.newMint(30 * time.Minute)
		if campaign != "" {
			m.Handoff.Campaign = json.RawMessage(campaign)
		}
		want, err := u.tryMint(m)
		suite.Must(u.t, "Mint", err)
		got, state, err := u.h.Store.Handoff(u.t.Context(), want.ID)
		suite.Must(u.t, "Handoff", err)
		if campaign != "" { // PostgreSQL reformats JSON
			var same map[string]string
			suite.Must(u.t, "campaign", json.Unmarshal(got.Campaign, &same))
			suite.Equal(u.t, "campaign", same["source"], "ä")
			got.Campaign = want.Campaign
		}
		suite.Equal(u.t, "handoff", got, want)
		if !state.KeyValid || state.Suspended || state.Restored || state.Now.Before(want.Minted) {
			u.t.Errorf("state %+v", state)
		}
	}
	missing := guest.NewID(guest.HandoffPrefix, clock.System())
	if _, _, err := u.h.Store.Handoff(u.t.Context(), missing); !errors.Is(err, handoffs.ErrNoHandoff) {
		u.t.Errorf("a missing one: %v", err)
	}
	if _, _, err := u.h.Store.Consume(u.t.Context(), attempt(handoffs.Handoff{ID: missing}, "a", "b")); !errors.Is(err, handoffs.ErrNoHandoff) {
		u.t.Errorf("consume a missing one: %v", err)
	}
}

func listHandoffs(_ *testing.T, u *user) {
	u.ring()
	var want []handoffs.Handoff
	for range 7 {
		want = append(want, u.newHandoff(time.Minute))
	}
	u.other().newHandoff(time.Minute)
	slices.SortFunc(want, func(a, b handoffs.Handoff) int { return cmp.Or(b.Minted.Compare(a.Minted), cmp.Compare(a.ID, b.ID)) })
	for _, size := range []int{1, 3, 7, 100} {
		suite.Equal(u.t, "Handoffs", u.handoffs(size), want)
	}
}

func (u *user) handoffs(size int) (all []handoffs.Handoff) {
	u.t.Helper()
	for {
		var after *handoffs.Handoff
		if len(all) > 0 {
			after = &all[len(all)-1]
		}
		page, err := u.h.Store.Handoffs(u.t.Context(), u.session, after, size)
		suite.Must(u.t, "Handoffs", err)
		all = append(all, page...)
		if len(page) < size {
			return all
		}
	}
}

// consumeOnce checks that only the successful attempt may be repeated. Refused attempts must change nothing.
func consumeOnce(_ *testing.T, u *user) {
	u.ring()
	h := u.newHandoff(time.Minute)
	first := attempt(h, "booking", "a")
	got, repeated := u.consume(first)
	if repeated || got.Consumed.Before(h.Minted) || !got.Consumed.Before(h.Expires) {
		u.t.Errorf("consumed %v, repeated %v", got.Consumed, repeated)
	}
	want := h
	want.Consumed, want.ConsumedBy, want.ConsumeKey = got.Consumed, "booking", "a"
	suite.Equal(u.t, "consumed", got, want)
	for range 2 {
		again, repeated := u.consume(attempt(h, "booking", "a"))
		suite.Equal(u.t, "again", again, want)
		suite.Equal(u.t, "repeated", repeated, true)
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
	other, later := attempt(h, "other", "a"), attempt(h, "booking", "b")
	for range 2 {
		u.refused("another service", other, handoffs.ErrConsumed)
		u.refused("another key", later, handoffs.ErrConsumed)
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
	suite.Equal(u.t, "history", u.handoffs(10), []handoffs.Handoff{want})
}

// consumeExpired checks that handoffs expire by the database clock. A refused attempt does not consume the
// handoff, and an attempt that succeeded in time may be repeated later.
func consumeExpired(_ *testing.T, u *user) {
	u.ring()
	late, early := u.newHandoff(time.Millisecond), u.newHandoff(time.Second)
	inTime := attempt(early, "booking", "a")
	u.consume(inTime)
	u.until(early)
	u.refused("expired", attempt(late, "booking", "a"), handoffs.ErrExpired)
	if _, repeated := u.consume(inTime); !repeated {
		u.t.Error("consumed twice")
	}
}

func (u *user) until(h handoffs.Handoff) {
	u.t.Helper()
	for {
		_, state, err := u.h.Store.Handoff(u.t.Context(), h.ID)
		suite.Must(u.t, "Handoff", err)
		if !state.Now.Before(h.Expires) {
			return
		}
		clock.Sleep(u.t.Context(), h.Expires.Sub(state.Now))
	}
}

func consumeAtTheEdge(_ *testing.T, u *user) {
	u.ring()
	for range 5 {
		h := u.newHandoff(30 * time.Millisecond)
		var won, expired atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				clock.Sleep(u.t.Context(), time.Until(h.Expires)+time.Duration(i-4)*time.Millisecond)
				switch _, _, err := u.h.Store.Consume(u.t.Context(), attempt(h, "booking", fmt.Sprint(i))); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, handoffs.ErrExpired):
					expired.Add(1)
				case !errors.Is(err, handoffs.ErrConsumed):
					u.t.Errorf("%v", err)
				}
			})
		}
		all.Wait()
		row := u.handoff(h.ID)
		switch {
		case row.Consumed.IsZero() && (won.Load() != 0 || expired.Load() != 8):
			u.t.Errorf("not consumed, but %d won and %d expired", won.Load(), expired.Load())
		case !row.Consumed.IsZero() && (won.Load() != 1 || !row.Consumed.Before(h.Expires)):
			u.t.Errorf("consumed at %v of %v, and %d won", row.Consumed, h.Expires, won.Load())
		}
	}
}

func consumeSuspended(_ *testing.T, u *user) {
	u.ring()
	h := u.newHandoff(time.Minute)
	u.receive(about(ident.New(), h.Tenant, true, 0))
	u.refused("suspended", attempt(h, "booking", "a"), tenants.ErrSuspended)
	u.receive(about(ident.New(), h.Tenant, false, 1))
	u.consume(attempt(h, "booking", "a"))
	u.receive(about(ident.New(), h.Tenant, true, 2))
	if _, repeated := u.consume(attempt(h, "booking", "a")); !repeated {
		u.t.Error("consumed twice")
	}
}

func consumeOtherKey(_ *testing.T, u *user) {
	u.ring()
	h := u.newHandoff(time.Minute)
	a := attempt(h, "booking", "a")
	a.SignedBy = "other"
	u.refused("another key", a, handoffs.ErrToken)
	u.consume(attempt(h, "booking", "a"))
}

func consumeRace(t *testing.T, u *user) {
	u.ring()
	racers := 1000
	if testing.Short() {
		racers = 100
	}
	stores := []backend.Store{u.h.Store, u.h.Store}
	if u.h.Again != nil {
		stores[1] = u.h.Again(t)
	}
	h := u.newHandoff(time.Minute)
	var winner atomic.Value
	var won, lost atomic.Int64
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range racers {
		a := attempt(h, fmt.Sprint("booking-", i%3), fmt.Sprint(i))
		all.Go(func() {
			<-begin
			switch _, repeated, err := stores[i%2].Consume(u.t.Context(), a); {
			case err == nil && !repeated:
				won.Add(1)
				winner.Store(a)
			case errors.Is(err, handoffs.ErrConsumed), errors.Is(err, guest.ErrInFlight):
				lost.Add(1)
			default:
				u.t.Errorf("racer %d: %v, %v", i, repeated, err)
			}
		})
	}
	close(begin)
	all.Wait()
	suite.Equal(u.t, "won and lost", []int64{won.Load(), lost.Load()}, []int64{1, int64(racers) - 1})
	a := winner.Load().(handoffs.Consumption)
	row := u.handoff(h.ID)
	suite.Equal(u.t, "the winner", []string{row.ConsumedBy, row.ConsumeKey}, []string{a.By, a.Key})
	if _, repeated := u.consume(a); !repeated {
		u.t.Error("consumed twice")
	}
}

func otherClaims(h handoffs.Handoff) map[string]handoff.Claims {
	all := map[string]handoff.Claims{}
	claims := handoffs.ClaimsOf(h)
	v := reflect.ValueOf(&claims).Elem()
	for i := range v.NumField() {
		before := reflect.ValueOf(v.Field(i).Interface())
		switch value := v.Field(i).Interface().(type) {
		case string:
			v.Field(i).SetString(value[:max(len(value), 1)-1] + "~")
		case int:
			v.Field(i).SetInt(int64(value + 1))
		case []byte:
			v.Field(i).SetBytes([]byte(strings.Repeat("x", 32)))
		case time.Time:
			v.Field(i).Set(reflect.ValueOf(value.Add(time.Millisecond)))
		}
		all[v.Type().Field(i).Name] = claims
		v.Field(i).Set(before)
	}
	return all
}

func consumeOtherClaims(_ *testing.T, u *user) {
	u.ring()
	h := u.newHandoff(time.Minute)
	all := otherClaims(h)
	suite.Equal(u.t, "claims", len(all), 17)
	for name, claims := range all {
		other := attempt(h, "booking", "a")
		other.Claims = claims
		u.refused(name, other, handoffs.ErrToken)
		stored, state, err := u.h.Store.Handoff(u.t.Context(), h.ID)
		suite.Must(u.t, "Handoff", err)
		if _, err := stored.CheckConsume(other, state); !errors.Is(err, handoffs.ErrToken) {
			u.t.Errorf("verify with another %s: %v", name, err)
		}
	}
	u.consume(attempt(h, "booking", "a"))
	for name, claims := range otherClaims(h) {
		other := attempt(h, "booking", "a")
		other.Claims = claims
		u.refused("repeated with another "+name, other, handoffs.ErrToken)
	}
}

// consumeWithCampaign checks a campaign whose JSON the database reformats.
func consumeWithCampaign(_ *testing.T, u *user) {
	u.ring()
	for _, campaign := range []string{`{"b":[1,2.50,1e3],"aa":"<ä>","c":{"x":null}}`, `{"a":1e300}`, `{}`} {
		m := u.newMint(time.Minute)
		m.Handoff.Campaign = json.RawMessage(campaign)
		h, err := u.tryMint(m)
		suite.Must(u.t, "Mint", err)
		u.consume(attempt(h, "booking", "a"))
	}
}

func clearHandoffs(_ *testing.T, u *user) {
	u.ring()
	h, other := u.newHandoff(time.Minute), u.other()
	kept := other.newHandoff(time.Minute)
	u.clear()
	suite.Equal(u.t, "history", len(u.handoffs(10)), 0)
	suite.Equal(u.t, "of another session", other.handoffs(10), []handoffs.Handoff{kept})
	row := u.handoff(h.ID)
	suite.Equal(u.t, "hashes", []int{len(row.Fingerprint), len(row.IP), len(row.Campaign)}, []int{0, 0, 0})
	u.consume(attempt(h, "booking", "a"))
	u.refused("again", attempt(h, "booking", "b"), handoffs.ErrConsumed)
}

func mintRollsBack(_ *testing.T, u *user) {
	u.ring()
	there := u.event(clock.System())
	u.record(there)
	for what, refuse := range map[string]struct {
		change func(m *handoffs.Mint)
		want   error
	}{
		"denied":               {func(m *handoffs.Mint) { m.Denied = errTest }, errTest},
		"no property":          {func(m *handoffs.Mint) { m.Missing = errTest }, errTest},
		"an arrival long ago":  {func(m *handoffs.Mint) { m.Handoff.CheckIn = "2020-12-30" }, nil},
		"a life of an hour":    {func(m *handoffs.Mint) { m.Life = time.Hour }, nil},
		"an event that exists": {func(m *handoffs.Mint) { m.Event = there.ID }, nil},
	} {
		m := u.newMint(time.Minute)
		refuse.change(&m)
		if _, err := u.tryMint(m); err == nil || refuse.want != nil && !errors.Is(err, refuse.want) {
			u.t.Errorf("%s: %v", what, err)
		}
		suite.Equal(u.t, what+": history", len(u.handoffs(10)), 0)
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
}

func handoffModel(t *testing.T, u *user) {
	u.ring()
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t = rt
		m := &handoffMachine{user: u.other(), by: map[guest.ID]string{}}
		return map[string]func(*rapid.T){"mint": m.stepMint, "consume": m.stepConsume, "suspend": m.stepSuspend, "": m.compareHistory}
	})
}

type handoffMachine struct {
	*user
	minted    []handoffs.Handoff
	by        map[guest.ID]string // consuming attempt
	suspended []string
	minute    int
}

func (m *handoffMachine) stepMint(*rapid.T) { m.minted = append(m.minted, m.newHandoff(time.Hour/2)) }

func (m *handoffMachine) stepConsume(rt *rapid.T) {
	if len(m.minted) == 0 {
		rt.Skip("nothing is minted")
	}
	h := rapid.SampledFrom(m.minted).Draw(rt, "handoff")
	by, key := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "by"), rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "key")
	_, repeated, err := m.h.Store.Consume(rt.Context(), attempt(h, by, key))
	winner, isConsumed := m.by[h.ID]
	switch {
	case isConsumed && winner == by+key:
		if err != nil || !repeated {
			rt.Fatalf("repeated: %v, %v", repeated, err)
		}
	case isConsumed:
		if !errors.Is(err, handoffs.ErrConsumed) {
			rt.Fatalf("a replay: %v", err)
		}
	case slices.Contains(m.suspended, h.Tenant):
		if !errors.Is(err, tenants.ErrSuspended) {
			rt.Fatalf("a suspended tenant: %v", err)
		}
	case err != nil || repeated:
		rt.Fatalf("consume: %v, %v", repeated, err)
	default:
		m.by[h.ID] = by + key
	}
}

func (m *handoffMachine) stepSuspend(rt *rapid.T) {
	if len(m.minted) == 0 {
		rt.Skip("nothing is minted")
	}
	tenant := rapid.SampledFrom(m.minted).Draw(rt, "handoff").Tenant
	m.minute++
	i := slices.Index(m.suspended, tenant)
	m.receive(about(ident.New(), tenant, i < 0, m.minute))
	if i < 0 {
		m.suspended = append(m.suspended, tenant)
	} else {
		m.suspended = slices.Delete(m.suspended, i, i+1)
	}
}

func (m *handoffMachine) compareHistory(rt *rapid.T) {
	got := m.handoffs(3)
	if len(got) != len(m.minted) {
		rt.Fatalf("%d handoffs, want %d", len(got), len(m.minted))
	}
	for _, h := range got {
		if by := m.by[h.ID]; by != h.ConsumedBy+h.ConsumeKey || (by != "") == h.Consumed.IsZero() {
			rt.Fatalf("%s is consumed by %q at %v, want %q", h.ID, h.ConsumedBy+h.ConsumeKey, h.Consumed, by)
		}
	}
}
