// Package storetest is the contract of extstorage's Store, Inspector, Registry and
// Installs as tests.
//
// A backend calls Run from a test of its own; what is not in this suite no
// caller may rely on. Every test has a fresh install on one database that all
// tests share, as installs do, and all run in parallel. The suite turns the clock
// itself, because every step of a Store is told what time it is.
//
// The table of cases of the service's rule is here too, exported, so that the rule
// in package extstorage and its restatement in a backend's SQL are held against
// the same lines.
package storetest

import (
	"slices"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
)

// Harness is a backend as the suite needs it.
type Harness struct {
	// Store is what is tested. Its database may hold other installs' data, but
	// nobody else may sweep it: a sweep reaches every install, and the suite
	// lets each of its tests live at a time of its own.
	Store     ext.Store
	Inspector ext.Inspector
	Registry  ext.Registry
	Installs  ext.Installs
	Tokens    ext.Tokens
	Deletions ext.Deletions

	// Events reads the events that an install has in the outbox, by number.
	Events func(t testing.TB, o ext.Owner) []Event

	// Damage runs SQL that no Store would, of the tables that every backend has.
	// Who has none is exempt from Span/Uncounted.
	Damage func(t testing.TB, sql string)

	// Faulty opens another Harness on a database of its own, whose engine asks
	// fault at every point where it can fail, and treats what that returns as
	// its error. nil leaves the group Faults out.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	// Exempt names tests that do not hold on the backend ("Group/Test"), with
	// the reason.
	Exempt map[string]string
}

// Event is an event of the outbox.
type Event struct {
	Seq     int64
	Topic   string
	Key     string
	Payload string // JSON
	At      ext.Moment
}

// Run runs the suite. What open opens is closed by a cleanup of its t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt,
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
