// Package storetest is the contract of a syncstorage.Store as tests.
//
// A backend calls Run from a test of its own; what is not in this suite no
// caller may rely on. Every test has a fresh owner on one database that all
// tests share, as users do, and all run in parallel. The suite turns the clock
// itself, because every step of a Store is told what time it is.
//
// The tables of cases of the service's rules are here too, exported, so that the
// rule in package syncstorage and its restatement in a backend's SQL are held
// against the same lines.
package storetest

import (
	"context"
	"testing"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

// Harness is a backend as the suite needs it.
type Harness struct {
	// Store is what is tested. Its database may hold other users' data, but
	// nobody else may sweep it: a sweep reaches every user, and the suite lets
	// each of its tests live at a time of its own.
	Store ss.Store

	// Faulty opens another store that asks fault at every point where the
	// engine can fail, and treats what it returns as the engine's error. On
	// which database is up to the backend; nil leaves the group Faults out.
	Faulty func(t testing.TB, fault func(point string) error) ss.Store

	// Reap is set where the engine removes what has expired by itself and tells
	// nobody, so that Sweep has nothing to do: it does at once what the engine
	// does some time after the moment, and returns how many records and
	// batches that were.
	Reap func(ctx context.Context, now ss.Timestamp) (int, error)

	// Apart gives every test a database of its own, where an engine would slow
	// down by what the others leave behind.
	Apart bool

	// BatchRecords is how many records a batch can hold where the engine sets
	// a bound; 0 means that it sets none.
	BatchRecords int

	// Exempt names tests that do not hold on the backend ("Group/Test"), with
	// the reason.
	Exempt map[string]string
}

// Run runs the suite. open is called once, and again for each test of a Harness
// that is Apart; what it opens is closed by a cleanup of its t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt,
		New: func(t *testing.T, g suite.Group[*user]) *user {
			h := h
			if h.Apart {
				h = open(t)
			}
			u := newUser(t, h)
			if g.Serial {
				u.now = early
			}
			return u
		},
	}.Run(t)
}

// Short names for what every suite has.
type tb = suite.TB

var (
	must      = suite.Must
	wantFault = suite.WantFault
)

func equal[T any](t tb, what string, got, want T) {
	t.Helper()
	suite.Equal(t, what, got, want)
}

// check is one test; the user it gets is fresh.
type check = suite.Case[*user]

// groups are the contract. Tests that sweep are serial and live long before all
// the others, whose records they must not sweep.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Values", Cases: valueChecks()},
		{Name: "Faults", Cases: faultChecks()},
		{Name: "Refusals", Cases: refusalChecks()},
		{Name: "Preconditions", Cases: preconditionChecks()},
		{Name: "Merge", Cases: mergeChecks()},
		{Name: "Stamps", Cases: stampChecks()},
		{Name: "Collections", Cases: collectionChecks()},
		{Name: "Batches", Cases: batchChecks()},
		{Name: "Deletes", Cases: deleteChecks()},
		{Name: "Usage", Cases: usageChecks()},
		{Name: "Quota", Cases: quotaChecks()},
		{Name: "OwnQuota", Cases: ownQuotaChecks()},
		{Name: "Totals", Cases: totalsChecks()},
		{Name: "Transfer", Cases: transferChecks()},
		{Name: "Listing", Cases: listingChecks()},
		{Name: "Paging", Cases: pagingChecks()},
		{Name: "Snapshot", Cases: snapshotChecks()},
		{Name: "Expiry", Cases: expiryChecks()},
		{Name: "Concurrency", Cases: concurrencyChecks()},
		{Name: "Isolation", Cases: isolationChecks()},
		{Name: "Sweep", Cases: append(sweepChecks(), modelChecks()...), Serial: true},
	}
}
