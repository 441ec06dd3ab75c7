// Package storetest defines the contract of the bucket stores as tests. A backend's test calls Run. Callers must not
// rely on anything untested.
//
// Cases run in parallel, each with a new account on a shared database, unless they need to see every account.
package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

type Harness struct {
	Store      buckets.Store
	Versions   buckets.Versions
	Uploads    buckets.Uploads
	Collector  buckets.Collector
	References buckets.References
	Counters   buckets.Counters
	Accounts   buckets.Accounts
	Nodes      buckets.Nodes
	Leases     buckets.Leases
	Damages    buckets.Damages
	Scrubs     buckets.Scrubs
	Lifecycles buckets.Lifecycles
	Events     buckets.Events

	// Appended returns an account's unpublished events in order.
	Appended func(t suite.TB, owner buckets.AccountID) []Appended

	// Damage runs a statement that no store would run, on the tables that all backends have. A backend with other
	// counters than manta_bucket_usage translates the statement.
	Damage func(t testing.TB, sql string)

	// Faulty opens another Harness on its own database, whose engine fails with the errors that fault returns. If Faulty is
	// nil, the Faults cases are skipped.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	// Second opens the database again, like another process. It is nil if only one process may use the database.
	Second func(t testing.TB) buckets.Store

	// Exempt maps known failing cases ("Group/Case") to a reason.
	Exempt map[string]string

	Soak suite.Soak
}

// Run runs the suite. open must register the cleanup of what it opens.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	h := open(t)
	suite.Suite[*user]{
		Groups: groups(), Exempt: h.Exempt, Soak: h.Soak,
		New: func(t *testing.T, g suite.Group[*user]) *user {
			if g.Own {
				return newUser(t, open(t))
			}
			return newUser(t, h)
		},
	}.Run(t)
}

// Names returns all case names as "Group/Case".
func Names() []string { return suite.Names(groups()) }

type check = suite.Case[*user]

// groups are all cases of the contract. A group with Own sees every account.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Buckets", Cases: bucketChecks()},
		{Name: "Names", Cases: nameChecks(), Own: true},
		{Name: "Objects", Cases: objectChecks()},
		{Name: "Versions", Cases: versionChecks(), Own: true},
		{Name: "Locks", Cases: lockChecks(), Own: true},
		{Name: "Conditions", Cases: conditionChecks()},
		{Name: "RFD149", Cases: rfd149Checks()},
		{Name: "Listing", Cases: listingChecks()},
		{Name: "References", Cases: referenceChecks()},
		{Name: "Uploads", Cases: uploadChecks()},
		{Name: "Usage", Cases: usageChecks()},
		{Name: "Garbage", Cases: garbageChecks(), Own: true},
		{Name: "Accounts", Cases: accountChecks(), Own: true},
		{Name: "Restores", Cases: restoreChecks(), Own: true},
		{Name: "Nodes", Cases: nodeChecks(), Own: true},
		{Name: "Leases", Cases: leaseChecks()},
		{Name: "Damages", Cases: damageChecks(), Own: true},
		{Name: "Lifecycles", Cases: lifecycleChecks(), Own: true},
		{Name: "Events", Cases: eventChecks(), Own: true},
		{Name: "Faults", Cases: faultChecks()},
		{Name: "Model", Cases: modelChecks(), Own: true},
	}
}

type tb = suite.TB

var must = suite.Must

func equal[T any](t tb, what string, got, want T) {
	t.Helper()
	suite.Equal(t, what, got, want)
}
