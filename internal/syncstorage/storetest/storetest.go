// Package storetest is the contract of a syncstorage.Store as tests.
//
// A backend calls Run from a test of its own; what is not in this suite no
// caller may rely on. Every test has a fresh owner on one database that all
// tests share, as users do, and all run in parallel. The suite turns the clock
// itself, because every step of a Store is told what time it is.
//
// The tables of cases of the room's rules are here too, exported, so that the
// rule in package syncstorage and its restatement in a backend's SQL are held
// against the same lines.
package storetest

import (
	"context"
	"testing"

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

	// StagesFirst says that Commit stages the records of its request in a step of
	// its own, which stays when the commit itself does not come to pass.
	StagesFirst bool

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
	all := groups()
	known := map[string]bool{}
	for _, g := range all {
		for _, c := range g.checks {
			known[g.name+"/"+c.name] = true
		}
	}
	for name := range h.Exempt {
		if !known[name] {
			t.Errorf("%s is exempt and does not exist", name)
		}
	}
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					if !g.serial {
						t.Parallel()
					}
					if reason, exempt := h.Exempt[g.name+"/"+c.name]; exempt {
						t.Skip("exempt: " + reason)
					}
					h := h
					if h.Apart {
						h = open(t)
					}
					u := newUser(t, h)
					if g.serial {
						u.now = dawn
					}
					c.run(t, u)
				})
			}
		})
	}
}

// check is one test; the user it gets is fresh.
type check struct {
	name string
	run  func(t *testing.T, u *user)
}

// group is the tests of one subject.
type group struct {
	name   string
	checks []check

	// serial is for tests that sweep. They live long before all the others,
	// whose records they must not sweep, and one after the other.
	serial bool
}

func groups() []group {
	return []group{
		{name: "Values", checks: valueChecks()},
		{name: "Faults", checks: faultChecks()},
		{name: "Refusals", checks: refusalChecks()},
		{name: "Preconditions", checks: preconditionChecks()},
		{name: "Merge", checks: mergeChecks()},
		{name: "Stamps", checks: stampChecks()},
		{name: "Collections", checks: collectionChecks()},
		{name: "Batches", checks: batchChecks()},
		{name: "Deletes", checks: deleteChecks()},
		{name: "Usage", checks: usageChecks()},
		{name: "Quota", checks: quotaChecks()},
		{name: "Listing", checks: listingChecks()},
		{name: "Paging", checks: pagingChecks()},
		{name: "Snapshot", checks: snapshotChecks()},
		{name: "Expiry", checks: expiryChecks()},
		{name: "Concurrency", checks: concurrencyChecks()},
		{name: "Isolation", checks: isolationChecks()},
		{name: "Sweep", checks: append(sweepChecks(), modelChecks()...), serial: true},
	}
}
