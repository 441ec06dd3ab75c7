// Package storetest tests the contract of extstorage's Store, Registry and Installs, and of
// inspection.Store.
//
// A backend calls Run from its own test. Callers may rely only on what this suite
// tests. Every test has a fresh install on one shared database, and all tests run
// in parallel. The suite sets the time, which is a parameter of every operation.
//
// The package also exports the table of cases of the service's rule, so that the
// rule in package extstorage and its implementation in a backend's SQL are checked
// by the same cases.
package storetest

import (
	"slices"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/suite"
)

// Harness describes a backend to the suite.
type Harness struct {
	// Store is the store to test. Its database may have data of other installs, but
	// only the suite may sweep it: a sweep affects every install, and each test of
	// the suite runs at its own time.
	Store     ext.Store
	Inspector inspection.Store
	Registry  ext.Registry
	Installs  ext.Installs
	Tokens    ext.Tokens
	Deletions ext.Deletions

	// Events returns the events of an install in the outbox, by number.
	Events func(t testing.TB, o ext.Owner) []Event

	// Damage runs SQL that damages data, on the tables that every backend has. A
	// backend without it is exempt from Span/Uncounted.
	Damage func(t testing.TB, sql string)

	// Faulty opens another Harness on its own database, whose engine calls fault at
	// every point where it can fail, and treats the error as its own. If Faulty is
	// nil, the group Faults is skipped.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	// Exempt lists the tests that do not apply to the backend ("Group/Test"), with
	// the reason.
	Exempt map[string]string

	Soak suite.Soak
}

// Event is an event of the outbox.
type Event struct {
	Seq     int64
	Topic   string
	Key     string
	Payload string // JSON
	At      ext.Moment
}

// Run runs the suite. open closes what it opens in a cleanup of its t.
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

// Names returns the names of all tests, as "Group/Test".
func Names() []string { return suite.Names(groups()) }

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
