// Package storetest is the contract of backend.Store as tests.
//
// A backend calls Run from a test of its own; what is not in this suite no caller may
// rely on. Every case has a new session on a database that the cases share, except for
// cases that see the data of every session. All run in parallel.
package storetest

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/suite"
)

// Harness is a backend as the suite needs it.
type Harness struct {
	Store backend.Store

	// Events reads the outbox of a session, in order.
	Events func(t suite.TB, session guest.ID) []guest.Event

	// AddBotScore adds a score of a session.
	AddBotScore func(t suite.TB, session guest.ID, at time.Time)

	// AddAnswer stores the answer of a mutation, like an earlier release.
	AddAnswer func(t suite.TB, m guest.Mutation, a guest.StoredAnswer)

	// AddHandoff adds a handoff, like another program.
	AddHandoff func(t suite.TB, h handoffs.Handoff) error

	// SetIncarnation, if set, replaces the incarnation of the keys, as if the database was
	// restored. It is nil if the database does not know its incarnation.
	SetIncarnation func(t suite.TB, incarnation string)

	// Find returns the tables of which a row has a text, without the prefix or schema, and
	// the number of these rows.
	Find func(t suite.TB, text string) map[string]int

	// Schema returns "migration NUMBER NAME" for each migration, "column TABLE.NAME TYPE" and
	// "not null" for each column, and "index TABLE NAME" and "partial" or "unique" for each index
	// with a name of its own; without the prefix or schema.
	Schema func(t suite.TB) []string

	// Again, if set, opens another store on the same database, like another process.
	Again func(t testing.TB) backend.Store

	// Faulty opens another Harness on its own database, whose engine calls fault at every
	// point where it can fail, and uses its error.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	Soak suite.Soak
}

// Run runs the suite. A cleanup of t closes what open opens.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Soak: h.Soak,
		New: func(t *testing.T, g suite.Group[*user]) *user {
			if g.Own {
				return newUser(t, open(t))
			}
			return newUser(t, h)
		},
	}.Run(t)
}

// Names returns the names of all cases, as "Group/Case".
func Names() []string { return suite.Names(groups()) }

// check is one case; its user is new.
type check = suite.Case[*user]

// groups are the contract. A group with Own sees the data of every session.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Mutations", Cases: mutationChecks()},
		{Name: "Wishes", Cases: wishChecks()},
		{Name: "Users", Cases: userChecks()},
		{Name: "Bots", Cases: botChecks()},
		{Name: "Items", Cases: itemChecks()},
		{Name: "Suspensions", Cases: suspensionChecks()},
		{Name: "Handoffs", Cases: handoffChecks()},
		{Name: "Refusals", Cases: refusalChecks()},
		{Name: "HandoffKeys", Cases: handoffKeyChecks(), Own: true},
		{Name: "Retention", Cases: retentionChecks(), Own: true},
		{Name: "Schema", Cases: schemaChecks()},
		{Name: "Faults", Cases: faultChecks()},
		{Name: "Model", Cases: modelChecks(), Own: true},

		{Name: "MutationsInShop", Cases: inShop(mutationChecks())},
		{Name: "WishesInShop", Cases: inShop(wishChecks())},
		{Name: "UsersInShop", Cases: inShop(userChecks())},
		{Name: "SuspensionsInShop", Cases: inShop(suspensionChecks())},
		{Name: "HandoffsInShop", Cases: inShop(handoffChecks())},
		{Name: "RetentionInShop", Cases: inShop(retentionChecks()), Own: true},
	}
}

// inShop returns cases whose user visits a shop instead of a hotel search.
func inShop(cases []check) (all []check) {
	for _, c := range cases {
		all = append(all, check{c.Name, func(t *testing.T, u *user) {
			u.profile = shop
			c.Run(t, u)
		}})
	}
	return all
}

// user is a session, and mutates with a new key each time.
type user struct {
	t       suite.TB
	h       Harness
	session guest.ID
	profile *guest.Profile // nil: guest.Hotel
	keys    int
}

func newUser(t suite.TB, h Harness) *user {
	return &user{t: t, h: h, session: guest.NewID(guest.SessionPrefix, clock.System())}
}

// other is a user with another session.
func (u *user) other() *user {
	o := newUser(u.t, u.h)
	o.profile = u.profile
	return o
}

// racer is the same guest in another goroutine, with its own keys.
func (u *user) racer(n int) *user {
	r := *u
	r.keys = (n + 1) * 1000
	return &r
}

// mutation is a mutation with a new key.
func (u *user) mutation() guest.Mutation {
	u.keys++
	return guest.Mutation{Session: u.session, Route: "POST /test", Key: fmt.Sprint("key-", u.keys), Digest: sha256.Sum256([]byte("request")), Profile: u.profile}
}

// Constants of wishes.
const (
	tenant = "11111111-2222-4333-8444-555555555555"
	second = "22222222-2222-4333-8444-555555555555"
)

// property returns the ID of the n-th property.
func property(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }

// wishes reads the whole list in pages of some size.
func (u *user) wishes(size int) (all []guest.Wish) {
	u.t.Helper()
	for {
		var after *guest.Wish
		if len(all) > 0 {
			after = &all[len(all)-1]
		}
		page, err := u.h.Store.Wishes(u.t.Context(), u.session, after, size)
		suite.Must(u.t, "Wishes", err)
		all = append(all, page...)
		if len(page) < size {
			return all
		}
	}
}

// event returns a new event of the session.
func (u *user) event(now time.Time) guest.Event {
	return guest.Event{
		ID: newEvent(), Type: "test.v1", Subject: string(u.session), Retention: guest.Operational, Payload: []byte(`{"a":1}`), At: now,
	}
}

// newEvent returns the ID of a new event.
func newEvent() guest.ID { return guest.NewID(guest.EventPrefix, clock.System()) }
