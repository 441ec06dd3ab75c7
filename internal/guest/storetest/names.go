package storetest

import (
	"cmp"
	"errors"
	"fmt"
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
	"holdfast/internal/suite"
)

// nameChecks are about handoffs with a payload, which are named.
func nameChecks() []check {
	return []check{
		{"Replaced", nameReplaced},
		{"Kept", nameKept},
		{"KeptOfRevokedKey", nameKeptOfRevokedKey},
		{"Scope", nameScope},
		{"Expired", nameExpired},
		{"SignIn", nameAfterSignIn},
		{"RefusedChangesNothing", nameRefused},
		{"RemoveSold", removeSold},
		{"Race", nameRace},
		{"Model", nameModel},
	}
}

// named returns a mint under a name.
func (u *user) named(tenant, item string, open handoffs.IfOpen) handoffs.Mint {
	u.t.Helper()
	m := u.newMint(10 * time.Minute)
	m.Handoff.Tenant, m.Handoff.Item, m.IfOpen = tenant, item, open
	return m
}

func (u *user) mint(m handoffs.Mint) handoffs.Handoff {
	u.t.Helper()
	h, err := u.tryMint(m)
	suite.Must(u.t, "Mint", err)
	return h
}

// kinds returns the session's events without the prefix, with their subjects.
func (u *user) kinds() (all []string) {
	u.t.Helper()
	for _, e := range u.h.Events(u.t, u.session) {
		all = append(all, strings.TrimPrefix(e.Type, u.profile.Types)+" "+e.Subject)
	}
	return all
}

// wantSpent checks that a mint is refused with the consumed handoff.
func (u *user) wantSpent(what string, m handoffs.Mint, consumed guest.ID) {
	u.t.Helper()
	_, err := u.h.Store.Mint(u.t.Context(), m)
	spent, ok := errors.AsType[*handoffs.ConsumedError](err)
	if !ok || !errors.Is(err, handoffs.ErrConsumed) {
		u.t.Errorf("%s: %v, want a ConsumedError", what, err)
		return
	}
	suite.Equal(u.t, what+": the consumed handoff", spent.Handoff, u.handoff(consumed))
}

// nameReplaced checks that only the later handoff with a name can be consumed, and that no handoff can be minted after it.
func nameReplaced(_ *testing.T, u *user) {
	u.ring()
	tenant := newTenant()
	first := u.mint(u.named(tenant, "cart-1", ""))
	second := u.mint(u.named(tenant, "cart-1", handoffs.Replace))
	voided := u.handoff(first.ID).Voided
	if voided.Before(first.Listed) || voided.After(second.Listed) {
		u.t.Errorf("voided at %v", voided)
	}
	suite.Equal(u.t, "events", u.kinds(), []string{
		"handoff.initiated.v1 " + string(first.ID), "handoff.voided.v1 " + string(first.ID), "handoff.initiated.v1 " + string(second.ID),
	})
	event := u.h.Events(u.t, u.session)[1]
	want := fmt.Sprintf(`{"handoffId":%q,"sessionId":%q,"tenantId":%q,"itemId":"cart-1","reason":"replaced"}`, first.ID, u.session, tenant)
	suite.Equal(u.t, "event", []string{string(event.Payload), event.Retention}, []string{want, guest.Audit})
	u.refused("the first", attempt(first, "checkout", "a"), handoffs.ErrVoided)
	u.consume(attempt(second, "checkout", "a"))
	for _, open := range []handoffs.IfOpen{handoffs.Replace, handoffs.Keep} {
		u.wantSpent("a third", u.named(tenant, "cart-1", open), second.ID)
	}
	u.refused("the first again", attempt(first, "checkout", "a"), handoffs.ErrVoided)
	suite.Equal(u.t, "number of events", len(u.kinds()), 3)
	if _, repeated := u.consume(attempt(second, "checkout", "a")); !repeated {
		u.t.Error("consumed twice")
	}
}

// nameKept checks when a mint returns the open handoff: the token is the same. Otherwise it voids the handoff.
func nameKept(_ *testing.T, u *user) {
	for _, a := range []handoffs.Algorithm{handoffs.HMAC, handoffs.Ed25519} {
		u := u.other()
		keys, tenant := u.ring(), newTenant()
		if a == handoffs.Ed25519 {
			_, err := keys.CreateOfTenant(u.t.Context(), tenant)
			suite.Must(u.t, "CreateOfTenant", err)
		}
		mint := func(change func(*handoffs.Mint)) guest.Once[handoffs.Minted] {
			u.t.Helper()
			m := u.named(tenant, "cart-1", handoffs.Keep)
			m.Handoff.Campaign = []byte(`{"b":1.50,"a":"x"}`) // reformatted by PostgreSQL
			m.Algorithm = a
			change(&m)
			o, err := u.h.Store.Mint(u.t.Context(), m)
			suite.Must(u.t, "Mint", err)
			return o
		}
		first := mint(func(*handoffs.Mint) {})
		before := u.see()
		for range 2 {
			o := mint(func(*handoffs.Mint) {})
			want := first.Result
			want.Kept = true
			suite.Equal(u.t, "kept", o.Result, want)
		}
		suite.Equal(u.t, "the session", u.see(), before)
		last := first.Result
		for what, change := range map[string]func(*handoffs.Mint){
			"another payload":  func(m *handoffs.Mint) { m.Handoff.Payload = []byte(`{"b":2}`) },
			"another browser":  func(m *handoffs.Mint) { m.Handoff.Fingerprint = digestOf('x') },
			"another address":  func(m *handoffs.Mint) { m.Handoff.IP = digestOf('x') },
			"another currency": func(m *handoffs.Mint) { m.Handoff.Currency = "CHF" },
			"another campaign": func(m *handoffs.Mint) { m.Handoff.Campaign = nil },
			"a longer life":    func(m *handoffs.Mint) { m.Life = 30 * time.Minute },
		} {
			o := mint(change)
			if o.Result.Kept || o.Result.ID == last.ID || u.handoff(last.ID).Voided.IsZero() {
				u.t.Errorf("%s: %+v", what, o.Result)
			}
			last = mint(func(*handoffs.Mint) {}).Result
		}
		claims := attempt(u.handoff(last.ID), "checkout", "a")
		u.consume(claims)
	}
}

// nameKeptOfRevokedKey checks that a handoff whose key was revoked is not returned.
func nameKeptOfRevokedKey(_ *testing.T, u *user) {
	keys, tenant := u.ring(), newTenant()
	_, err := keys.CreateOfTenant(u.t.Context(), tenant)
	suite.Must(u.t, "CreateOfTenant", err)
	m := u.named(tenant, "cart-1", handoffs.Keep)
	m.Algorithm = handoffs.Ed25519
	first := u.mint(m)
	_, err = keys.RevokeOfTenant(u.t.Context(), first.Key)
	suite.Must(u.t, "RevokeOfTenant", err)
	m.Mutation, m.Event, m.Handoff.ID = u.mutation(), newEvent(), guest.NewID(guest.HandoffPrefix, clock.System())
	second := u.mint(m)
	if second.Key == first.Key || u.handoff(first.ID).Voided.IsZero() {
		u.t.Errorf("%+v", second)
	}
}

// nameScope checks that a name belongs to a session and a tenant.
func nameScope(_ *testing.T, u *user) {
	u.ring()
	tenant := newTenant()
	other := u.other()
	all := []handoffs.Handoff{u.mint(u.named(tenant, "cart-1", "")), u.mint(u.named(tenant, "cart-2", "")), u.mint(u.named(newTenant(), "cart-1", ""))}
	theirs := other.mint(other.named(tenant, "cart-1", ""))
	for _, h := range all {
		u.consume(attempt(h, "checkout", "a"))
	}
	other.consume(attempt(theirs, "checkout", "a"))
}

// nameExpired checks that an expired handoff neither holds its name nor is voided.
func nameExpired(_ *testing.T, u *user) {
	u.ring()
	m := u.named(newTenant(), "cart-1", "")
	m.Life = time.Millisecond
	first := u.mint(m)
	u.until(first)
	u.mint(u.named(m.Handoff.Tenant, "cart-1", handoffs.Keep))
	suite.Equal(u.t, "voided", u.handoff(first.ID).Voided, time.Time{})
	suite.Equal(u.t, "events", len(u.kinds()), 2)
}

// nameAfterSignIn checks that a sign-in voids the open handoffs, because it moves the list, and keeps consumed ones.
func nameAfterSignIn(_ *testing.T, u *user) {
	u.ring()
	tenant := newTenant()
	done := u.mint(u.named(tenant, "cart-1", ""))
	u.consume(attempt(done, "checkout", "a"))
	open, other := u.mint(u.named(tenant, "cart-2", "")), u.other().newHandoff(time.Minute)
	stay := u.racer(1)
	stay.profile = nil
	stays := stay.newHandoff(time.Minute)
	o, err := u.h.Store.LinkUser(u.t.Context(), newLink(u, "user-of-"+string(u.session)))
	suite.Must(u.t, "LinkUser", err)
	suite.Equal(u.t, "the last event", u.kinds()[len(u.kinds())-1], "handoff.voided.v1 "+string(open.ID))
	if payload := string(u.h.Events(u.t, u.session)[3].Payload); !strings.HasSuffix(payload, `"reason":"signed-in"}`) {
		u.t.Errorf("event %s", payload)
	}
	u.refused("the open handoff", attempt(open, "checkout", "a"), handoffs.ErrVoided)
	for _, h := range []handoffs.Handoff{stays, other} {
		u.consume(attempt(h, "checkout", "a"))
	}
	if _, repeated := u.consume(attempt(done, "checkout", "a")); !repeated {
		u.t.Error("consumed twice")
	}
	user := u.other()
	user.session = o.Result.List
	user.mint(user.named(tenant, "cart-1", ""))
}

// nameRefused checks that a refused mint does not void the open handoff.
func nameRefused(_ *testing.T, u *user) {
	u.ring()
	there := u.event(clock.System())
	u.record(there)
	first := u.mint(u.named(newTenant(), "cart-1", ""))
	before := u.see()
	for what, change := range map[string]func(*handoffs.Mint){
		"denied":               func(m *handoffs.Mint) { m.Denied = errTest },
		"an event that exists": func(m *handoffs.Mint) { m.Event = there.ID },
	} {
		m := u.named(first.Tenant, "cart-1", "")
		change(&m)
		if _, err := u.h.Store.Mint(u.t.Context(), m); err == nil {
			u.t.Errorf("%s: minted", what)
		}
		suite.Equal(u.t, what, u.see(), before)
	}
	u.consume(attempt(first, "checkout", "a"))
}

// removeSold checks which entries stay: those added after the mint, for another tenant, or not sold, and the rest of a
// quantity.
func removeSold(_ *testing.T, u *user) {
	w := func(n, quantity int) guest.Wish {
		w := u.wish(n)
		w.Quantity = quantity
		return w
	}
	for n, quantity := range []int{2, 5, 3, 1, 4} {
		u.add(w(n, quantity))
	}
	foreign := w(5, 1)
	foreign.Tenant = second
	u.add(foreign)
	until := u.add(w(6, 2)).Added
	u.remove(4)
	u.add(w(4, 4)) // added again after the mint
	before := len(u.kinds())
	sold := guest.RemoveSold{Mutation: u.mutation(), Tenant: tenant, Until: until}
	for n, quantity := range map[int]int{0: 2, 1: 2, 2: 7, 4: 4, 5: 1, 6: 0, 9: 1} { // 9 is not in the list
		sold.Items, sold.Events = append(sold.Items, guest.SoldItem{Item: u.item(n), Quantity: quantity}), append(sold.Events, newEvent())
	}
	for i := range 2 {
		o, err := u.h.Store.RemoveSold(u.t.Context(), sold)
		suite.Must(u.t, "RemoveSold", err)
		suite.Equal(u.t, "result", o, guest.Once[guest.RemovedSold]{Result: guest.RemovedSold{Removed: 3, Reduced: 1}, Replayed: i > 0})
		left := map[string]int{}
		for _, w := range u.wishes(10) {
			left[w.Item] = w.Quantity
		}
		suite.Equal(u.t, "left", left, map[string]int{u.item(1): 3, u.item(3): 1, u.item(4): 4, u.item(5): 1})
	}
	var kinds []string
	for _, kind := range u.kinds()[before:] {
		kind, _, _ = strings.Cut(kind, " ")
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	suite.Equal(u.t, "events", kinds, []string{"wishlist.changed.v1", "wishlist.removed.v1", "wishlist.removed.v1", "wishlist.removed.v1"})
}

// nameRace mints handoffs with the same name at once, and consumes each as soon as it is minted: one order.
func nameRace(t *testing.T, u *user) {
	u.ring()
	const racers = 30
	stores := []backend.Store{u.h.Store, u.h.Store}
	if u.h.Again != nil {
		stores[1] = u.h.Again(t)
	}
	tenant := newTenant()
	var won atomic.Int64
	var winner atomic.Value
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range racers {
		m := u.racer(i).named(tenant, "cart-1", []handoffs.IfOpen{handoffs.Replace, handoffs.Keep}[i%2])
		all.Go(func() {
			<-begin
			o, err := stores[i%2].Mint(u.t.Context(), m)
			switch {
			case errors.Is(err, handoffs.ErrConsumed), errors.Is(err, guest.ErrInFlight):
				return
			case err != nil:
				u.t.Errorf("mint %d: %v", i, err)
				return
			}
			h, _, err := stores[i%2].Handoff(u.t.Context(), o.Result.ID)
			suite.Must(u.t, "Handoff", err)
			switch _, _, err := stores[(i+1)%2].Consume(u.t.Context(), attempt(h, "checkout", fmt.Sprint(i))); {
			case err == nil:
				won.Add(1)
				winner.Store(h.ID)
			case !errors.Is(err, handoffs.ErrVoided) && !errors.Is(err, handoffs.ErrConsumed):
				u.t.Errorf("consume %d: %v", i, err)
			}
		})
	}
	close(begin)
	all.Wait()
	suite.Equal(u.t, "orders", won.Load(), int64(1))
	for _, h := range u.handoffs(100) {
		if h.Consumed.IsZero() == h.Voided.IsZero() {
			u.t.Errorf("%s is neither consumed nor voided", h.ID)
		}
	}
	u.wantSpent("afterwards", u.racer(racers).named(tenant, "cart-1", ""), winner.Load().(guest.ID))
}

func nameModel(t *testing.T, u *user) {
	keys := u.ring()
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t = rt
		m := &nameMachine{user: u.other(), keys: keys, tenants: []string{newTenant(), newTenant()}, state: map[guest.ID]string{}}
		return map[string]func(*rapid.T){
			"mint": m.stepMint, "mint more": m.stepMint, "repeat": m.stepRepeat, "consume": m.stepConsume, "sign in": m.stepSignIn, "": m.compare,
		}
	})
}

// nameMachine mints and consumes handoffs with a few names. The model contains each handoff's state, and the requests.
type nameMachine struct {
	*user
	keys    *handoffs.Keys
	tenants []string
	minted  []handoffs.Handoff
	state   map[guest.ID]string // open, voided, or the consuming attempt
	done    []namedRequest
	events  []string
}

type namedRequest struct {
	handoffs.Mint
	result handoffs.Minted
}

// holder returns the handoff that holds a name.
func (m *nameMachine) holder(h handoffs.Handoff) (handoffs.Handoff, bool) {
	for _, other := range slices.Backward(m.minted) {
		if other.Session == h.Session && other.Tenant == h.Tenant && other.Item == h.Item && m.state[other.ID] != "voided" {
			return other, true
		}
	}
	return h, false
}

func (m *nameMachine) stepMint(rt *rapid.T) {
	mint := m.named(
		rapid.SampledFrom(m.tenants).Draw(rt, "tenant"), rapid.SampledFrom([]string{"cart-1", "cart-2"}).Draw(rt, "item"),
		rapid.SampledFrom([]handoffs.IfOpen{"", handoffs.Replace, handoffs.Keep}).Draw(rt, "if open"),
	)
	mint.Keys = m.keys
	mint.Handoff.Payload = []byte(rapid.SampledFrom([]string{`{"a":1}`, `{"a":2}`}).Draw(rt, "payload"))
	o, err := m.h.Store.Mint(rt.Context(), mint)
	holder, held := m.holder(mint.Handoff)
	switch {
	case held && m.state[holder.ID] != "open":
		if spent, ok := errors.AsType[*handoffs.ConsumedError](err); !ok || spent.Handoff.ID != holder.ID {
			rt.Fatalf("a spent name: %v", err)
		}
		return
	case err != nil || o.Replayed:
		rt.Fatalf("mint: %v, %v", o.Replayed, err)
	case held && mint.IfOpen == handoffs.Keep && string(holder.Payload) == string(mint.Handoff.Payload):
		if o.Result.ID != holder.ID || !o.Result.Kept {
			rt.Fatalf("kept: %+v, want %s", o.Result, holder.ID)
		}
	default:
		if o.Result.ID != mint.Handoff.ID || o.Result.Kept {
			rt.Fatalf("minted: %+v, want %s", o.Result, mint.Handoff.ID)
		}
		if held {
			m.state[holder.ID] = "voided"
			m.events = append(m.events, "handoff.voided.v1 "+string(holder.ID))
		}
		h := m.handoff(o.Result.ID)
		m.minted, m.state[h.ID] = append(m.minted, h), "open"
		m.events = append(m.events, "handoff.initiated.v1 "+string(h.ID))
	}
	if key, _ := handoff.KeyID(o.Result.Token); key != m.handoff(o.Result.ID).Key {
		rt.Fatalf("signed by %s", key)
	}
	m.done = append(m.done, namedRequest{mint, o.Result})
}

// stepRepeat checks that the store returns the first result also after the handoff ended: Service.Mint checks the handoff.
func (m *nameMachine) stepRepeat(rt *rapid.T) {
	if len(m.done) == 0 {
		rt.Skip("nothing to repeat")
	}
	r := rapid.SampledFrom(m.done).Draw(rt, "request")
	o, err := m.h.Store.Mint(rt.Context(), r.Mint)
	suite.Must(rt, "repeat", err)
	suite.Equal(rt, "repeated", o, guest.Once[handoffs.Minted]{Result: r.result, Replayed: true})
	h, state, err := m.h.Store.Handoff(rt.Context(), r.result.ID)
	suite.Must(rt, "Handoff", err)
	err = h.CheckRepeat(state)
	_, spent := errors.AsType[*handoffs.ConsumedError](err)
	switch is := m.state[h.ID]; {
	case is == "open" && err != nil, is == "voided" && !errors.Is(err, handoffs.ErrVoided), is != "open" && is != "voided" && !spent:
		rt.Fatalf("the repeated token of a handoff that is %q: %v", is, err)
	}
}

func (m *nameMachine) stepConsume(rt *rapid.T) {
	if len(m.minted) == 0 {
		rt.Skip("nothing is minted")
	}
	h := rapid.SampledFrom(m.minted).Draw(rt, "handoff")
	key := rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "key")
	_, repeated, err := m.h.Store.Consume(rt.Context(), attempt(h, "checkout", key))
	switch m.state[h.ID] {
	case "open":
		if err != nil || repeated {
			rt.Fatalf("consume: %v, %v", repeated, err)
		}
		m.state[h.ID] = key
	case "voided":
		if !errors.Is(err, handoffs.ErrVoided) {
			rt.Fatalf("consume a voided handoff: %v", err)
		}
	case key:
		if err != nil || !repeated {
			rt.Fatalf("repeated: %v, %v", repeated, err)
		}
	default:
		if !errors.Is(err, handoffs.ErrConsumed) {
			rt.Fatalf("a replay: %v", err)
		}
	}
}

// stepSignIn voids open handoffs. The session's answers are deleted.
func (m *nameMachine) stepSignIn(rt *rapid.T) {
	_, err := m.h.Store.LinkUser(rt.Context(), newLink(m.user, "user-of-"+string(m.session)))
	suite.Must(rt, "LinkUser", err)
	var voided []string
	for _, h := range m.minted {
		if m.state[h.ID] == "open" {
			m.state[h.ID] = "voided"
			voided = append(voided, "handoff.voided.v1 "+string(h.ID))
		}
	}
	slices.Sort(voided) // voided in any order
	m.events, m.done = append(m.events, voided...), nil
}

func (m *nameMachine) compare(rt *rapid.T) {
	for _, h := range m.handoffs(100) {
		got := cmp.Or(h.ConsumeKey, "open")
		if !h.Voided.IsZero() {
			got = "voided"
		}
		suite.Equal(rt, string(h.ID), got, m.state[h.ID])
	}
	suite.Equal(rt, "handoffs", len(m.handoffs(100)), len(m.minted))
	got, want := m.kinds(), slices.Clone(m.events)
	slices.Sort(got)
	slices.Sort(want)
	suite.Equal(rt, "events", got, want)
}
