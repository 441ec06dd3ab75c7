// Package storetest tests the contract of a syncstorage.Store. Callers may rely only on the behavior it tests.
//
// Each test uses a fresh owner in a shared database, in parallel with the others, and sets the time in every
// operation.
package storetest

import (
	"context"
	"testing"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

type Harness struct {
	// Only the suite may sweep the store: a sweep affects all users, and each test runs at its own time. The store
	// may contain other users.
	Store ss.Store

	// Faulty opens another store, in any database, that calls fault wherever the engine can fail and returns the
	// error from fault. If Faulty is nil, the group Faults is skipped.
	Faulty func(t testing.TB, fault func(point string) error) ss.Store

	// Reap is set if the engine removes expired rows instead of Sweep. It does so immediately, and returns the number
	// of records and batches.
	Reap func(ctx context.Context, now ss.Timestamp) (int, error)

	// Apart gives every test its own database, for engines slowed down by other tests' data.
	Apart bool

	// BatchRecords is the engine's maximum per batch; 0 means no limit.
	BatchRecords int

	// Exempt maps tests that do not apply to the backend ("Group/Test") to the reason.
	Exempt map[string]string

	Soak suite.Soak
}

// Run runs the suite. It calls open once, or per test if Harness.Apart is set. open registers cleanups with its t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt, Soak: h.Soak,
		New: func(t *testing.T, g suite.Group[*user]) *user {
			h := h
			if h.Apart || g.Own {
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

type tb = suite.TB

var (
	must     = suite.Must
	wantCode = suite.WantCode
)

func equal[T any](t tb, what string, got, want T) {
	t.Helper()
	suite.Equal(t, what, got, want)
}

type check = suite.Case[*user]

// Tests that sweep run serially, at times long before all others. Tests of restores change the data of all users.
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
		{Name: "Compare", Cases: compareChecks()},
		{Name: "Transfer", Cases: transferChecks()},
		{Name: "Listing", Cases: listingChecks()},
		{Name: "Paging", Cases: pagingChecks()},
		{Name: "Snapshot", Cases: snapshotChecks()},
		{Name: "Expiry", Cases: expiryChecks()},
		{Name: "Concurrency", Cases: concurrencyChecks()},
		{Name: "Isolation", Cases: isolationChecks()},
		{Name: "Restores", Cases: restoreChecks(), Own: true},
		{Name: "Sweep", Cases: append(sweepChecks(), modelChecks()...), Serial: true},
	}
}
