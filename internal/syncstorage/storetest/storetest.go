// Package storetest tests the contract of a syncstorage.Store.
//
// A backend calls Run from its own test. Callers may rely only on what this suite
// tests. Every test has a fresh owner on one shared database, and all tests run in
// parallel. The suite sets the time, which is a parameter of every operation.
//
// The package also exports the tables of cases of the service's rules, so that a
// rule in package syncstorage and its implementation in a backend's SQL are checked
// by the same cases.
package storetest

import (
	"context"
	"testing"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

// Harness describes a backend to the suite.
type Harness struct {
	// Store is the store to test. Its database may have data of other users, but
	// only the suite may sweep it: a sweep affects every user, and each test of the
	// suite runs at its own time.
	Store ss.Store

	// Faulty opens another store that calls fault at every point where the engine
	// can fail, and treats its error as the engine's. The backend chooses the
	// database. If Faulty is nil, the group Faults is skipped.
	Faulty func(t testing.TB, fault func(point string) error) ss.Store

	// Reap is set if the engine removes expired rows itself, so that Sweep does
	// nothing. Reap does immediately what the engine would do some time later, and
	// returns the number of removed records and batches.
	Reap func(ctx context.Context, now ss.Timestamp) (int, error)

	// Apart gives every test its own database, for an engine that would slow down
	// with the data of other tests.
	Apart bool

	// BatchRecords is the engine's maximum number of records in a batch; 0: no
	// limit.
	BatchRecords int

	// Exempt lists the tests that do not apply to the backend ("Group/Test"), with
	// the reason.
	Exempt map[string]string

	Soak suite.Soak
}

// Run runs the suite. It calls open once, or once per test if Harness.Apart is set.
// open closes what it opens in a cleanup of its t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt, Soak: h.Soak,
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

// Short names of package suite.
type tb = suite.TB

var (
	must     = suite.Must
	wantCode = suite.WantCode
)

func equal[T any](t tb, what string, got, want T) {
	t.Helper()
	suite.Equal(t, what, got, want)
}

// check is one test with a fresh user.
type check = suite.Case[*user]

// groups returns the tests. Tests that sweep run serially, at times long before
// those of all others, whose records they must not remove.
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
