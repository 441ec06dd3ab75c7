package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

// away is hot state that is unavailable: then the database decides alone.
type away struct{ guest.Hot }

var errAway = fault.New(fault.Unavailable, "the hot state is away")

func (away) ClaimAnswer(context.Context, string, string) (guest.StoredAnswer, error) {
	return guest.StoredAnswer{}, errAway
}

func (away) PutAnswer(context.Context, string, [32]byte, guest.Answer) error { return errAway }

func (away) ReleaseAnswer(context.Context, string, string) error { return errAway }

func (away) Cached(context.Context, string) (guest.CachedValue, error) {
	return guest.CachedValue{}, errAway
}

// oneProperty is a catalogue in which every tenant has the property 1.
type oneProperty struct {
	guest.Catalogue
	tenant string
}

func (c oneProperty) Property(_ context.Context, id string) (guest.Property, error) {
	if id != property(1) {
		return guest.Property{}, guest.ErrNoProperty
	}
	return guest.Property{PropertyID: id, TenantID: c.tenant}, nil
}

// minter returns the operations of handoffs to a tenant.
func (u *user) minter(tenant string) *guest.Handoffs {
	u.t.Helper()
	hasher, err := guest.NewHasher(strings.Repeat("h", 32), nil)
	suite.Must(u.t, "NewHasher", err)
	return guest.NewHandoffs(guest.HandoffOptions{
		Service: guest.NewService(guest.Options{Store: u.h.Store, Hot: away{}, Clock: clock.System, Catalogue: oneProperty{tenant: tenant}}),
		Keys:    u.ring(), Hasher: hasher, Life: 10 * time.Minute, Restored: func() { u.t.Error("restored") },
		Site: func(string) guest.BookingSite { return guest.BookingSite{URL: "https://book.example/#{token}"} },
	})
}

// mintFor mints a handoff of the session, and calls answer in its transaction.
func (u *user) mintFor(s *guest.Handoffs, m guest.Mutation, tenant, property string, answer func(guest.Minted) error) (minted guest.Minted, replayed bool, err error) {
	r := guest.MintRequest{
		Tenant: tenant, Property: property, Visitor: guest.Visitor{UserAgent: "raw agent", IP: "192.0.2.77"},
		Stay: guest.Stay{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2, Rooms: 1, Currency: "EUR", Locale: "de-AT"},
	}
	_, replayed, err = s.Mint(u.t.Context(), m, guest.Preferences{}, r, func(of guest.Minted) (guest.Answer, error) {
		minted = of
		return ok, answer(of)
	})
	return minted, replayed, err
}

func agrees(guest.Minted) error { return nil }

// mintIsOneEvent: each handoff that is minted has one audited event, also if the request is
// repeated or many are sent at once. What is refused, for a suspended tenant, a property of
// another tenant or a bot, has neither. No row has the address or the browser.
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
		_, replayed, err := u.mintFor(s, m, tenant, property(1), agrees)
		suite.Must(u.t, "Mint", err)
		suite.Equal(u.t, "replayed", replayed, i > 0)
	}
	count("repeated", 1)

	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			m := guest.Mutation{Session: u.session, Route: "POST /mint", Key: fmt.Sprint(i / 2), Digest: sha256.Sum256(nil)} // each twice
			if _, _, err := u.mintFor(s, m, tenant, property(1), agrees); err != nil && !errors.Is(err, guest.ErrInFlight) {
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

	refused := func(what string, want error, tenant, property string, answer func(guest.Minted) error) {
		u.t.Helper()
		if _, _, err := u.mintFor(s, u.mutation(), tenant, property, answer); !errors.Is(err, want) {
			u.t.Errorf("%s: %v, want %v", what, err, want)
		}
		count(what, minted)
	}
	refused("an answer that fails", errTest, tenant, property(1), func(guest.Minted) error { return errTest })
	refused("no property", guest.ErrNoProperty, tenant, property(2), agrees)
	refused("the property of another tenant", guest.ErrNoProperty, newTenant(), property(1), agrees)
	u.receive(about(ident.New(), tenant, true, 0))
	refused("a suspended tenant", guest.ErrTenantSuspended, tenant, property(1), agrees)
	u.receive(about(ident.New(), tenant, false, 1))
	_, _, err := u.mintFor(s, u.mutation(), tenant, property(1), agrees)
	suite.Must(u.t, "a reinstated tenant", err)
	for _, raw := range []string{"raw agent", "192.0.2.77"} {
		suite.Equal(u.t, "rows with "+raw, u.h.Find(u.t, raw), map[string]int{})
	}
}

// mintIsSealed: no row has a token in plain text. The same request gets the same answer also if an
// earlier release has stored it in plain text, before and after it is encrypted.
func mintIsSealed(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minter(tenant)
	mint := func(m guest.Mutation) (body string, replayed bool) {
		u.t.Helper()
		r := guest.MintRequest{Tenant: tenant, Property: property(1), Stay: guest.Stay{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2, Rooms: 1, Currency: "EUR", Locale: "de-AT"}}
		a, replayed, err := s.Mint(u.t.Context(), m, guest.Preferences{}, r, func(of guest.Minted) (guest.Answer, error) {
			return guest.Answer{Status: 201, ContentType: "application/json", Body: []byte(`{"token":"` + of.Token + `"}`)}, nil
		})
		suite.Must(u.t, "Mint", err)
		suite.Equal(u.t, "answer", []any{a.Status, a.ContentType, a.Location}, []any{201, "application/json", ""})
		return string(a.Body), replayed
	}
	find := func(text string) map[string]int { // PostgreSQL shows bytes as hexadecimal digits
		found := u.h.Find(u.t, text)
		maps.Copy(found, u.h.Find(u.t, hex.EncodeToString([]byte(text))))
		return found
	}
	plain := func(body string) map[string]int { return find(strings.TrimSuffix(strings.Split(body, ".")[3], `"}`)) }
	m := u.mutation()
	m.Route = guest.MintRoute
	first, _ := mint(m)
	suite.Equal(u.t, "rows with the signature", plain(first), map[string]int{})
	again, replayed := mint(m)
	suite.Equal(u.t, "again", []any{again, replayed}, []any{first, true})

	old := u.mutation()
	old.Route, old.Digest = guest.MintRoute, m.Digest
	_, _, err := u.h.Store.Mutate(u.t.Context(), old, func(guest.Tx) (guest.Answer, error) {
		return guest.Answer{Status: 201, ContentType: "application/json", Body: []byte(first)}, nil
	})
	suite.Must(u.t, "Mutate", err)
	suite.Equal(u.t, "rows of an earlier release", plain(first), map[string]int{"idempotency_keys": 1})
	again, replayed = mint(old)
	suite.Equal(u.t, "of an earlier release", []any{again, replayed}, []any{first, true})
	for i, want := range []bool{true, false} {
		n, err := s.SealAnswers(u.t.Context())
		suite.Must(u.t, "SealAnswers", err)
		suite.Equal(u.t, fmt.Sprint("encrypted, time ", i), n > 0, want)
		suite.Equal(u.t, "rows after it", plain(first), map[string]int{})
		again, replayed = mint(old)
		suite.Equal(u.t, "after it", []any{again, replayed}, []any{first, true})
	}
	other := u.mutation() // another mutation has another route, and its answer stays
	_, _, err = u.h.Store.Mutate(u.t.Context(), other, func(guest.Tx) (guest.Answer, error) {
		return guest.Answer{Status: 201, ContentType: "application/json", Body: []byte(`{"kept":"plain"}`)}, nil
	})
	suite.Must(u.t, "Mutate", err)
	_, err = s.SealAnswers(u.t.Context())
	suite.Must(u.t, "SealAnswers", err)
	suite.Equal(u.t, "another route", find(`{"kept":"plain"}`)["idempotency_keys"] >= 1, true)
}

// wrongHandoffs: the database refuses handoffs that no request may make, also from other
// programs: with a life of more than 30 minutes or none, without nights or adults, or with
// another ID.
func wrongHandoffs(_ *testing.T, u *user) {
	u.ring()
	for what, wrong := range map[string]func(*guest.Handoff){
		"no life":              func(h *guest.Handoff) { h.Expires = h.Minted },
		"expired before":       func(h *guest.Handoff) { h.Expires = h.Minted.Add(-time.Second) },
		"more than 30 minutes": func(h *guest.Handoff) { h.Expires = h.Minted.Add(30*time.Minute + time.Millisecond) },
		"no night":             func(h *guest.Handoff) { h.CheckOut = h.CheckIn },
		"backwards":            func(h *guest.Handoff) { h.CheckIn, h.CheckOut = h.CheckOut, h.CheckIn },
		"no adults":            func(h *guest.Handoff) { h.Adults = 0 },
		"fewer children":       func(h *guest.Handoff) { h.Children = -1 },
		"no rooms":             func(h *guest.Handoff) { h.Rooms = 0 },
		"the ID of a wish":     func(h *guest.Handoff) { h.ID = guest.NewID(guest.WishPrefix, clock.System()) },
		"a short ID":           func(h *guest.Handoff) { h.ID = h.ID[:20] },
		"a large ID":           func(h *guest.Handoff) { h.ID = guest.HandoffPrefix + "8" + h.ID[5:] },
	} {
		var id guest.ID
		err := u.try(func(tx guest.Tx) error {
			key, err := tx.SigningKey()
			suite.Must(u.t, "SigningKey", err)
			minted := tx.Now().Truncate(time.Millisecond)
			h := guest.Handoff{
				ID: guest.NewID(guest.HandoffPrefix, clock.System()), Session: u.session, Tenant: tenant, Property: property(1), Key: key.ID,
				Stay:        guest.Stay{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 1, Rooms: 1, Currency: "EUR", Locale: "de"},
				Fingerprint: []byte{1}, IP: []byte{1}, Minted: minted, Expires: minted.Add(time.Minute),
			}
			wrong(&h)
			id = h.ID
			return tx.Mint(h)
		})
		if err == nil {
			u.t.Errorf("%s: %s was minted", what, id)
		}
	}
	suite.Equal(u.t, "history", len(u.handoffs(10)), 0)
}

// consumeClockSetBack: a handoff that was minted before the clock of the database was set back
// is consumed, once, and not before it was minted.
func consumeClockSetBack(_ *testing.T, u *user) {
	u.ring()
	var h guest.Handoff
	u.mutate(func(tx guest.Tx) (err error) {
		if h, err = u.mint(tx, time.Minute); err != nil {
			return err
		}
		h.ID, h.Minted, h.Expires = guest.NewID(guest.HandoffPrefix, clock.System()), h.Minted.Add(time.Hour), h.Expires.Add(time.Hour)
		return tx.Mint(h)
	})
	a := attempt(h, "booking", "a")
	got, _ := u.consume(a)
	suite.Equal(u.t, "consumed", got.Consumed, h.Minted)
	again, repeated := u.consume(a)
	suite.Equal(u.t, "again", again, got)
	suite.Equal(u.t, "repeated", repeated, true)
	u.refused("another attempt", attempt(h, "booking", "b"), guest.ErrConsumed)
}

// verifyChangesNothing: a booking site may verify a token as often as it likes, whatever the
// result: neither the handoff nor the events change, and it can still be consumed.
func verifyChangesNothing(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minter(tenant)
	m, _, err := u.mintFor(s, u.mutation(), tenant, property(1), agrees)
	suite.Must(u.t, "Mint", err)
	before, events := u.handoff(m.ID), u.h.Events(u.t, u.session)
	request := guest.ConsumeRequest{ID: string(m.ID), Token: m.Token, By: "booking", Key: "a"}
	forged := request
	forged.Token = m.Token[:len(m.Token)-10] + strings.Repeat("A", 9) + m.Token[len(m.Token)-1:]
	for range 2 {
		got, err := s.Verify(u.t.Context(), request)
		suite.Must(u.t, "Verify", err)
		suite.Equal(u.t, "verified", got.Handoff, before)
		if _, err := s.Verify(u.t.Context(), forged); !errors.Is(err, guest.ErrHandoffToken) {
			u.t.Errorf("a forged token: %v", err)
		}
	}
	suite.Equal(u.t, "handoff", u.handoff(m.ID), before)
	suite.Equal(u.t, "events", u.h.Events(u.t, u.session), events)
	_, err = s.Consume(u.t.Context(), request)
	suite.Must(u.t, "Consume", err)
	for range 2 {
		if _, err := s.Verify(u.t.Context(), request); !errors.Is(err, guest.ErrConsumed) {
			u.t.Errorf("Verify of a consumed handoff: %v", err)
		}
	}
	suite.Equal(u.t, "events at the end", u.h.Events(u.t, u.session), events)
}
