package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

type away struct{ backend.Hot }

var errAway = errcode.New(errcode.Unavailable, "the hot state is away")

func (away) ClaimAnswer(context.Context, string, string) (guest.AnswerClaim, error) {
	return guest.AnswerClaim{}, errAway
}

func (away) PutAnswer(context.Context, string, [32]byte, guest.StoredAnswer) error { return errAway }

func (away) ReleaseAnswer(context.Context, string, string) error { return errAway }

func (away) Cached(context.Context, string) (catalogue.CachedValue, error) {
	return catalogue.CachedValue{}, errAway
}

type oneProperty struct {
	catalogue.Source
	tenant string
}

func (c oneProperty) Property(_ context.Context, id string) (catalogue.Property, error) {
	if id != property(1) {
		return catalogue.Property{}, catalogue.ErrNoProperty
	}
	return catalogue.Property{PropertyID: id, TenantID: c.tenant}, nil
}

func (u *user) minter(tenant string) *handoffs.Service { return u.minterWith(tenant, handoffs.HMAC) }

func (u *user) minterWith(tenant string, a handoffs.Algorithm) *handoffs.Service {
	u.t.Helper()
	hasher, err := guest.NewHasher(strings.Repeat("h", 32), nil)
	suite.Must(u.t, "NewHasher", err)
	return handoffs.New(handoffs.Options{
		Guests: guest.NewService(guest.Options{Store: u.h.Store, Hot: away{}, Clock: clock.System, Profile: u.profile}), Store: u.h.Store, Clock: clock.System,
		Catalogue: catalogue.New(catalogue.Options{Source: oneProperty{tenant: tenant}, Hot: away{}, Clock: clock.System}),
		Keys:      u.ring(), Hasher: hasher, Life: 10 * time.Minute, Restored: func() { u.t.Error("restored") },
		Site: func(string) handoffs.BookingSite {
			return handoffs.BookingSite{URL: "https://book.example/#{token}", Algorithm: a}
		},
	})
}

func (u *user) mintFor(s *handoffs.Service, m guest.Mutation, tenant, item string) (guest.Once[handoffs.Minted], error) {
	r := handoffs.MintRequest{Tenant: tenant, Item: item, Visitor: guest.Visitor{UserAgent: "raw agent", IP: "192.0.2.77"}}
	r.Stay, r.Payload = u.content()
	return s.Mint(u.t.Context(), m, guest.Preferences{}, r)
}

// mintIsOneEvent checks that each minted handoff has one audited event, even if the request is repeated or
// concurrent. A refused mint stores nothing. No row contains the guest's address or User-Agent.
func mintIsOneEvent(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minter(tenant)
	count := func(what string, want int) {
		u.t.Helper()
		ids := map[string]bool{}
		for _, h := range u.handoffs(100) {
			ids[string(h.ID)] = true
		}
		suite.Equal(u.t, what+": handoffs", len(ids), want)
		events := u.h.Events(u.t, u.session)
		suite.Equal(u.t, what+": events", len(events), want)
		for _, e := range events {
			if !ids[e.Subject] || e.Retention != guest.Audit || !strings.HasSuffix(e.Type, ".handoff.initiated.v1") || !strings.Contains(string(e.Payload), e.Subject) {
				u.t.Errorf("%s: event %+v", what, e)
			}
			delete(ids, e.Subject)
		}
	}
	m := u.mutation()
	for i := range 3 {
		o, err := u.mintFor(s, m, tenant, u.item(1))
		suite.Must(u.t, "Mint", err)
		suite.Equal(u.t, "replayed", o.Replayed, i > 0)
	}
	count("repeated", 1)

	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			m := guest.Mutation{Session: u.session, Route: "POST /mint", Key: fmt.Sprint(i / 2), Digest: sha256.Sum256(nil), Profile: u.profile}
			item := u.item(1)
			if !u.profile.IsHotel() { // where another handoff with the same name would void the first
				item = u.item(10 + i/2)
			}
			if _, err := u.mintFor(s, m, tenant, item); err != nil && !errors.Is(err, guest.ErrInFlight) {
				u.t.Errorf("at once: %v", err)
			}
		})
	}
	all.Wait()
	minted := len(u.handoffs(100))
	if minted < 2 || minted > 6 {
		u.t.Errorf("%d handoffs of 6 requests", minted)
	}
	count("at once", minted)

	refused := func(what string, want error, tenant, item string) {
		u.t.Helper()
		if _, err := u.mintFor(s, u.mutation(), tenant, item); !errors.Is(err, want) {
			u.t.Errorf("%s: %v, want %v", what, err, want)
		}
		count(what, minted)
	}
	if u.profile.IsHotel() { // other profiles have no item catalogue
		refused("no property", catalogue.ErrNoProperty, tenant, property(2))
		refused("the property of another tenant", catalogue.ErrNoProperty, newTenant(), u.item(1))
	}
	u.receive(about(ident.New(), tenant, true, 0))
	refused("a suspended tenant", tenants.ErrSuspended, tenant, u.item(1))
	u.receive(about(ident.New(), tenant, false, 1))
	_, err := u.mintFor(s, u.mutation(), tenant, u.item(1))
	suite.Must(u.t, "a reinstated tenant", err)
	for _, raw := range []string{"raw agent", "192.0.2.77"} {
		suite.Equal(u.t, "rows with "+raw, u.h.Find(u.t, raw), map[string]int{})
	}
}

// mintIsSealed checks that no row contains a token in plain text. A repeated request still gets it.
func mintIsSealed(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minter(tenant)
	mint := func(m guest.Mutation) guest.Once[handoffs.Minted] {
		u.t.Helper()
		o, err := u.mintFor(s, m, tenant, u.item(1))
		suite.Must(u.t, "Mint", err)
		return o
	}
	find := func(text string) map[string]int { // PostgreSQL shows bytes as hexadecimal digits
		found := u.h.Find(u.t, text)
		maps.Copy(found, u.h.Find(u.t, hex.EncodeToString([]byte(text))))
		return found
	}
	m := u.mutation()
	m.Route = handoffs.MintRoute
	first := mint(m)
	signature := strings.Split(first.Result.Token, ".")[3]
	suite.Equal(u.t, "rows with the signature", find(signature), map[string]int{})
	again := mint(m)
	suite.Equal(u.t, "again", again, guest.Once[handoffs.Minted]{Result: first.Result, Replayed: true})
}

// wrongHandoffs checks that the database rejects invalid handoffs.
func wrongHandoffs(_ *testing.T, u *user) {
	u.ring()
	allowed := u.newHandoff(time.Minute)
	all := map[string]func(*handoffs.Handoff){
		"no life":              func(h *handoffs.Handoff) { h.Expires = h.Minted },
		"expired before":       func(h *handoffs.Handoff) { h.Expires = h.Minted.Add(-time.Second) },
		"more than 30 minutes": func(h *handoffs.Handoff) { h.Expires = h.Minted.Add(30*time.Minute + time.Millisecond) },
		"no stay or payload": func(h *handoffs.Handoff) {
			h.Stay, h.Payload = handoffs.Stay{Currency: h.Currency, Locale: h.Locale}, nil
		},
		"the ID of a wish": func(h *handoffs.Handoff) { h.ID = guest.NewID(guest.WishPrefix, clock.System()) },
		"a short ID":       func(h *handoffs.Handoff) { h.ID = h.ID[:20] },
		"a large ID":       func(h *handoffs.Handoff) { h.ID = guest.HandoffPrefix + "8" + h.ID[5:] },
	}
	if u.profile.IsHotel() {
		maps.Copy(all, map[string]func(*handoffs.Handoff){
			"no night":           func(h *handoffs.Handoff) { h.CheckOut = h.CheckIn },
			"backwards":          func(h *handoffs.Handoff) { h.CheckIn, h.CheckOut = h.CheckOut, h.CheckIn },
			"no adults":          func(h *handoffs.Handoff) { h.Adults = 0 },
			"fewer children":     func(h *handoffs.Handoff) { h.Children = -1 },
			"no rooms":           func(h *handoffs.Handoff) { h.Rooms = 0 },
			"a stay and payload": func(h *handoffs.Handoff) { h.Payload = json.RawMessage(`{}`) },
		})
	}
	for what, wrong := range all {
		h := allowed
		h.ID = guest.NewID(guest.HandoffPrefix, clock.System())
		wrong(&h)
		err := u.h.AddHandoff(u.t, h)
		if err == nil {
			u.t.Errorf("%s: %s was added", what, h.ID)
		}
	}
	suite.Equal(u.t, "history", u.handoffs(10), []handoffs.Handoff{allowed})
	allowed.ID = guest.NewID(guest.HandoffPrefix, clock.System())
	suite.Must(u.t, "an allowed one", u.h.AddHandoff(u.t, allowed))
}

// consumeClockSetBack checks that a handoff can be consumed after the database clock was set back. The stored time
// is not before the mint.
func consumeClockSetBack(_ *testing.T, u *user) {
	u.ring()
	h := u.newHandoff(time.Minute)
	h.ID, h.Minted, h.Expires = guest.NewID(guest.HandoffPrefix, clock.System()), h.Minted.Add(time.Hour), h.Expires.Add(time.Hour)
	suite.Must(u.t, "AddHandoff", u.h.AddHandoff(u.t, h))
	a := attempt(h, "booking", "a")
	got, _ := u.consume(a)
	suite.Equal(u.t, "consumed", got.Consumed, h.Minted)
	again, repeated := u.consume(a)
	suite.Equal(u.t, "again", again, got)
	suite.Equal(u.t, "repeated", repeated, true)
	u.refused("another attempt", attempt(h, "booking", "b"), handoffs.ErrConsumed)
}

func verifyChangesNothing(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minter(tenant)
	o, err := u.mintFor(s, u.mutation(), tenant, u.item(1))
	suite.Must(u.t, "Mint", err)
	m := o.Result
	before, events := u.handoff(m.ID), u.h.Events(u.t, u.session)
	request := handoffs.ConsumeRequest{ID: string(m.ID), Token: m.Token, By: "booking", Key: "a"}
	forged := request
	forged.Token = m.Token[:len(m.Token)-10] + strings.Repeat("A", 9) + m.Token[len(m.Token)-1:]
	for range 2 {
		got, err := s.Verify(u.t.Context(), request)
		suite.Must(u.t, "Verify", err)
		suite.Equal(u.t, "verified", got.Handoff, before)
		if _, err := s.Verify(u.t.Context(), forged); !errors.Is(err, handoffs.ErrToken) {
			u.t.Errorf("a forged token: %v", err)
		}
	}
	suite.Equal(u.t, "handoff", u.handoff(m.ID), before)
	suite.Equal(u.t, "events", u.h.Events(u.t, u.session), events)
	_, err = s.Consume(u.t.Context(), request)
	suite.Must(u.t, "Consume", err)
	for range 2 {
		if _, err := s.Verify(u.t.Context(), request); !errors.Is(err, handoffs.ErrConsumed) {
			u.t.Errorf("Verify of a consumed handoff: %v", err)
		}
	}
	suite.Equal(u.t, "events at the end", u.h.Events(u.t, u.session), events)
}
