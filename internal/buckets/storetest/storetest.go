// Package storetest is the contract of the stores of package buckets as tests: Store,
// Uploads, Collector, References, Counters, Accounts, Nodes, Leases, Damages,
// Scrubs, Lifecycles and Events.
//
// A backend calls Run from a test of its own; what is not in this suite no caller may
// rely on. Every case has a new account on a database that the cases share, except for
// cases that see the data of every account. All run in parallel. Every operation gets
// its time from the suite.
//
// The table of cases of Condition is exported, so that the rule in package buckets and
// the backends are checked by the same lines. NaiveList is the definition of a listing.
package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

// Harness is a backend as the suite needs it.
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

	// Appended returns the events of an account that are not published, in the order of their numbers.
	Appended func(t suite.TB, owner buckets.AccountID) []Appended

	// Damage runs a statement that no store would, on the tables that every backend has.
	// Backends with other counters than manta_bucket_usage handle it themselves.
	Damage func(t testing.TB, sql string)

	// Faulty opens another Harness on its own database, whose engine calls fault at every
	// point where it can fail, and uses its error. nil: the cases of Faults are skipped.
	Faulty func(t testing.TB, fault func(point string) error) Harness

	// Second opens another store on the same database, as another process does. nil: only one
	// process uses a database.
	Second func(t testing.TB) buckets.Store

	// Exempt names cases that do not hold on the backend ("Group/Case"), with the reason.
	Exempt map[string]string

	Soak suite.Soak
}

// Run runs the suite. A cleanup of t closes what open opens.
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

// Names returns the names of all cases, as "Group/Case".
func Names() []string { return suite.Names(groups()) }

// check is one case; its user is new.
type check = suite.Case[*user]

// groups are the contract. A group with Own sees the data of every account.
func groups() []suite.Group[*user] {
	return []suite.Group[*user]{
		{Name: "Buckets", Cases: bucketChecks()},
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
		{Name: "Nodes", Cases: nodeChecks(), Own: true},
		{Name: "Leases", Cases: leaseChecks()},
		{Name: "Damages", Cases: damageChecks(), Own: true},
		{Name: "Lifecycles", Cases: lifecycleChecks(), Own: true},
		{Name: "Events", Cases: eventChecks(), Own: true},
		{Name: "Faults", Cases: faultChecks()},
		{Name: "Model", Cases: modelChecks(), Own: true},
	}
}

// Short names for what every suite has.
type tb = suite.TB

var must = suite.Must

func equal[T any](t tb, what string, got, want T) {
	t.Helper()
	suite.Equal(t, what, got, want)
}
