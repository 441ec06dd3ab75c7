// Package storetest tests the contract of extstorage's Store, Registry and Installs, and of inspection.Store. Callers
// may rely only on the behavior it tests.
//
// Each test uses a fresh install in a shared database.
package storetest

import (
	"slices"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/suite"
)

type Harness struct {
	// Only the suite may sweep the store: a sweep affects all installs, and each test runs at its own time.
	Store     ext.Store
	Inspector inspection.Store
	Registry  ext.Registry
	Installs  ext.Installs
	Tokens    ext.Tokens
	Deletions ext.Deletions

	// Events returns the install's outbox events, by number.
	Events func(t testing.TB, o ext.Owner) []Event

	// Damage runs SQL on tables that every backend has. If it is nil, Span/Uncounted is exempt.
	Damage func(t testing.TB, sql string)

	// Faulty opens a Harness on its own database. The engine calls fault wherever it can fail, and returns the error
	// from fault. If Faulty is nil, the group Faults is skipped.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	// Exempt maps tests that do not apply to the backend ("Group/Test") to the reason.
	Exempt map[string]string

	Soak suite.Soak
}

type Event struct {
	Seq     int64
	Topic   string
	Key     string
	Payload string
	At      ext.Moment
}

// Run runs the suite. open registers cleanups with its t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt, Soak: h.Soak,
		New: func(t *testing.T, g suite.Group[*user]) *user {
			u := newUser(t, h)
			if g.Serial {
				u.now = early
			}
			return u
		},
	}.Run(t)
}

// Names returns all test names, as "Group/Test".
func Names() []string { return suite.Names(groups()) }

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

// groups returns the tests. Tests that sweep run serially, at times long before all others.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Values", Cases: valueChecks()},
		{Name: "Decide", Cases: decideChecks()},
		{Name: "Preconditions", Cases: preconditionChecks()},
		{Name: "Revisions", Cases: revisionChecks()},
		{Name: "Batch", Cases: batchChecks()},
		{Name: "Revise", Cases: reviseChecks()},
		{Name: "Quota", Cases: quotaChecks()},
		{Name: "Expiry", Cases: expiryChecks()},
		{Name: "List", Cases: listChecks()},
		{Name: "Export", Cases: exportChecks()},
		{Name: "Changes", Cases: changeChecks()},
		{Name: "IdempotencyKey", Cases: idempotencyChecks()},
		{Name: "Audit", Cases: auditChecks()},
		{Name: "Registry", Cases: registryChecks()},
		{Name: "Restore", Cases: restoreChecks()},
		{Name: "Installs", Cases: installChecks()},
		{Name: "Tokens", Cases: tokenChecks()},
		{Name: "Delete", Cases: deleteChecks()},
		{Name: "Isolation", Cases: isolationChecks()},
		{Name: "Usage", Cases: usageChecks()},
		{Name: "Span", Cases: spanChecks()},
		{Name: "Faults", Cases: faultChecks()},
		{Name: "Sweep", Cases: slices.Concat(sweepChecks(), tombstoneChecks(), modelChecks()), Serial: true},
	}
}
