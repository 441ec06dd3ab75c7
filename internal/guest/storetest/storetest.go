// Package storetest tests the contract of backend.Store.
//
// Callers must not rely on behavior outside this suite. Each case uses a new session, and all run in parallel on a
// shared database, except cases about every session's data.
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

type Harness struct {
	Store backend.Store

	Events func(t suite.TB, session guest.ID) []guest.Event

	AddBotScore func(t suite.TB, session guest.ID, at time.Time)

	AddAnswer func(t suite.TB, m guest.Mutation, a guest.StoredAnswer)

	// AddHandoff writes a handoff without the store's checks, like another program.
	AddHandoff func(t suite.TB, h handoffs.Handoff) error

	// SetIncarnation simulates a database restore by replacing the keys' incarnation. It is nil if the database
	// cannot detect restores.
	SetIncarnation func(t suite.TB, incarnation string)

	// Find counts the rows that contain a text, by table name without prefix or schema.
	Find func(t suite.TB, text string) map[string]int

	// Schema returns lines like those in schema.txt, without the prefix or schema.
	Schema func(t suite.TB) []string

	// Again opens another store on the same database, like another process. May be nil.
	Again func(t testing.TB) backend.Store

	// Faulty opens a Harness on another database. The engine calls fault at every possible failure point and returns
	// its error.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	Soak suite.Soak
}

// Run runs the suite.
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

type check = suite.Case[*user]

// groups returns the cases. Groups with Own need their own database, because they see all sessions.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Mutations", Cases: mutationChecks()},
		{Name: "Wishes", Cases: wishChecks()},
		{Name: "Guards", Cases: guardChecks()},
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
		{Name: "GuardsInShop", Cases: inShop(guardChecks())},
		{Name: "UsersInShop", Cases: inShop(userChecks())},
		{Name: "SuspensionsInShop", Cases: inShop(suspensionChecks())},
		{Name: "HandoffsInShop", Cases: inShop(handoffChecks())},
		{Name: "NamesInShop", Cases: inShop(nameChecks())},
		{Name: "RetentionInShop", Cases: inShop(retentionChecks()), Own: true},
	}
}

func inShop(cases []check) (all []check) {
	for _, c := range cases {
		all = append(all, check{c.Name, func(t *testing.T, u *user) {
			u.profile = shop
			c.Run(t, u)
		}})
	}
	return all
}

// user is a session that uses a new idempotency key for each mutation.
type user struct {
	t       suite.TB
	h       Harness
	session guest.ID
	profile *guest.Profile
	keys    int
}

func newUser(t suite.TB, h Harness) *user {
	return &user{t: t, h: h, session: guest.NewID(guest.SessionPrefix, clock.System())}
}

func (u *user) other() *user {
	o := newUser(u.t, u.h)
	o.profile = u.profile
	return o
}

// racer returns the same session for another goroutine, with other keys.
func (u *user) racer(n int) *user {
	r := *u
	r.keys = (n + 1) * 1000
	return &r
}

func (u *user) mutation() guest.Mutation {
	u.keys++
	return guest.Mutation{Session: u.session, Route: "POST /test", Key: fmt.Sprint("key-", u.keys), Digest: sha256.Sum256([]byte("request")), Profile: u.profile}
}

const (
	tenant = "11111111-2222-4333-8444-555555555555"
	second = "22222222-2222-4333-8444-555555555555"
)

func property(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }

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

func (u *user) event(now time.Time) guest.Event {
	return guest.Event{
		ID: newEvent(), Type: "test.v1", Subject: string(u.session), Retention: guest.Operational, Payload: []byte(`{"a":1}`), At: now,
	}
}

func newEvent() guest.ID { return guest.NewID(guest.EventPrefix, clock.System()) }
