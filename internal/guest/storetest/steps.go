package storetest

import (
	"encoding/json"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
)

func first[R any](u *user, o guest.Once[R], err error) (R, error) {
	u.t.Helper()
	if o.Replayed {
		u.t.Error("a new key was replayed")
	}
	return o.Result, err
}

func (u *user) addWish(m guest.Mutation, w guest.Wish) (guest.Once[guest.AddedWish], error) {
	return u.h.Store.AddWish(u.t.Context(), guest.AddWish{Mutation: m, Wish: w, Most: u.quantity(99), Event: newEvent()})
}

func (u *user) tryAdd(w guest.Wish) (r guest.AddedWish, err error) {
	u.t.Helper()
	o, err := u.addWish(u.mutation(), w)
	r, err = first(u, o, err)
	if err == nil {
		err = r.Err()
	}
	return r, err
}

func (u *user) add(w guest.Wish) guest.Wish {
	u.t.Helper()
	r, err := u.tryAdd(w)
	suite.Must(u.t, "AddWish", err)
	suite.Equal(u.t, "AddWish", r.Outcome, guest.WishAdded)
	return r.Wish
}

func (u *user) note(n int, text string) (guest.Wish, error) {
	u.t.Helper()
	o, err := u.h.Store.ChangeWish(u.t.Context(), guest.ChangeWish{Mutation: u.mutation(), Item: u.item(n), Note: new(text)})
	r, err := first(u, o, err)
	return r.Wish, err
}

func (u *user) remove(n int) (removed bool) {
	u.t.Helper()
	o, err := u.h.Store.RemoveWish(u.t.Context(), guest.RemoveWish{Mutation: u.mutation(), Item: u.item(n), Event: newEvent()})
	r, err := first(u, o, err)
	suite.Must(u.t, "RemoveWish", err)
	return r.Removed
}

func (u *user) clear() {
	u.t.Helper()
	o, err := u.h.Store.Clear(u.t.Context(), guest.Clear{Mutation: u.mutation()})
	_, err = first(u, o, err)
	suite.Must(u.t, "Clear", err)
}

func (u *user) record(events ...guest.Event) {
	u.t.Helper()
	o, err := u.h.Store.Record(u.t.Context(), telemetry.Record{Mutation: u.mutation(), Events: events})
	_, err = first(u, o, err)
	suite.Must(u.t, "Record", err)
}

func (u *user) newMint(life time.Duration) handoffs.Mint {
	u.t.Helper()
	stay, payload := u.content()
	return handoffs.Mint{
		Mutation: u.mutation(), Life: life, Site: "https://book.example/#{token}", Event: newEvent(), Keys: u.newKeys(),
		Handoff: handoffs.Handoff{
			ID: guest.NewID(guest.HandoffPrefix, clock.System()), Session: u.session, Tenant: newTenant(), Item: u.item(1),
			Stay: stay, Payload: payload,
			Fingerprint: digestOf('f'), IP: digestOf('i'),
		},
	}
}

func (u *user) content() (handoffs.Stay, json.RawMessage) {
	if u.profile == shop {
		return handoffs.Stay{Currency: "EUR", Locale: "de-AT"}, json.RawMessage(`{"b":1,"a":"\u00fc"}`)
	}
	return handoffs.Stay{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2, Children: 1, Rooms: 1, Currency: "EUR", Locale: "de-AT"}, nil
}

func digestOf(c byte) []byte {
	text := make([]byte, 32)
	for i := range text {
		text[i] = c
	}
	return text
}

// tryMint mints a handoff, and returns it with the key and times from the result.
func (u *user) tryMint(m handoffs.Mint) (h handoffs.Handoff, err error) {
	u.t.Helper()
	o, err := u.h.Store.Mint(u.t.Context(), m)
	r, err := first(u, o, err)
	if err != nil {
		return h, err
	}
	h = m.Handoff
	h.Key, _ = handoff.KeyID(r.Token)
	h.Minted, h.Expires, h.Listed = r.Expires.Add(-m.Life), r.Expires, u.handoff(m.Handoff.ID).Listed
	if past := h.Listed.Sub(h.Minted); past <= -time.Second || past >= time.Second || h.Listed.Truncate(time.Microsecond) != h.Listed {
		u.t.Errorf("listed at %v, minted at %v", h.Listed, h.Minted)
	}
	return h, nil
}

func (u *user) newHandoff(life time.Duration) handoffs.Handoff {
	u.t.Helper()
	h, err := u.tryMint(u.newMint(life))
	suite.Must(u.t, "Mint", err)
	return h
}

type done struct {
	result   string
	replayed bool
}

func doneOf[R any](o guest.Once[R], err error) (done, error) {
	text, _ := json.Marshal(o.Result)
	return done{string(text), o.Replayed}, err
}

type step struct {
	name   string
	events int

	// do makes a valid request. RemoveWish and ChangeWish need the entry standing. event is for the step's event, if
	// any.
	do func(u *user, m guest.Mutation, event guest.ID) (done, error)
}

// standing is the number of the property that steps change.
const standing = 1000

func (u *user) steps() []step {
	return []step{
		{"AddWish", 1, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			w := u.wish(standing + 1)
			w.Note = "new"
			return doneOf(u.h.Store.AddWish(u.t.Context(), guest.AddWish{Mutation: m, Wish: w, Most: u.quantity(99), Event: event}))
		}},
		{"ChangeWish", u.quantity(1), func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			c := guest.ChangeWish{Mutation: m, Item: u.item(standing), Note: new("noted"), Quantity: u.quantity(2), Event: event}
			return doneOf(u.h.Store.ChangeWish(u.t.Context(), c))
		}},
		{"RemoveWish", 1, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			return doneOf(u.h.Store.RemoveWish(u.t.Context(), guest.RemoveWish{Mutation: m, Item: u.item(standing), Event: event}))
		}},
		{"RemoveSold", 1, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			sold := guest.RemoveSold{Mutation: m, Tenant: tenant, Items: []guest.SoldItem{{Item: u.item(standing)}}, Until: clock.System().Add(time.Hour), Events: []guest.ID{event}}
			return doneOf(u.h.Store.RemoveSold(u.t.Context(), sold))
		}},
		{"Clear", 0, func(u *user, m guest.Mutation, _ guest.ID) (done, error) {
			return doneOf(u.h.Store.Clear(u.t.Context(), guest.Clear{Mutation: m}))
		}},
		{"Link", 0, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			l := newLink(u, "user-of-"+string(u.session))
			l.Mutation, l.Event = m, event
			return doneOf(u.h.Store.LinkUser(u.t.Context(), l))
		}},
		{"Record", 2, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			e, last := u.event(clock.System()), u.event(clock.System())
			last.ID = event
			return doneOf(u.h.Store.Record(u.t.Context(), telemetry.Record{Mutation: m, IDs: []guest.ID{"mpv_a", "mpv_b"}, Events: []guest.Event{e, last}}))
		}},
		{"Mint", 1, func(u *user, m guest.Mutation, event guest.ID) (done, error) {
			mint := u.newMint(time.Minute)
			mint.Mutation, mint.Event = m, event
			return doneOf(u.h.Store.Mint(u.t.Context(), mint))
		}},
	}
}

type seen struct {
	Wishes   []guest.Wish
	Handoffs []handoffs.Handoff
	Events   int
}

func (u *user) see() string {
	u.t.Helper()
	text, err := json.Marshal(seen{u.wishes(1000), u.handoffs(1000), len(u.h.Events(u.t, u.session))})
	suite.Must(u.t, "Marshal", err)
	return string(text)
}

// eachStep calls fn with every step in both profiles, each in a new session with the entry standing.
func (u *user) eachStep(fn func(u *user, s step)) {
	u.t.Helper()
	u.ring()
	for _, p := range profiles {
		u := u.in(p)
		for _, s := range u.steps() {
			one := u.other()
			one.add(u.wish(standing))
			fn(one, s)
		}
	}
}
