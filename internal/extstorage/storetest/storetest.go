// Package storetest is the contract of extstorage's Store, Registry and Installs
// as tests.
//
// A backend calls Run from a test of its own; what is not in this suite no
// caller may rely on. Every test has a fresh install on one database that all
// tests share, as installs do, and all run in parallel. The suite turns the clock
// itself, because every step of a Store is told what time it is.
//
// The table of cases of the room's rule is here too, exported, so that the rule
// in package extstorage and its restatement in a backend's SQL are held against
// the same lines.
package storetest

import (
	"slices"
	"testing"

	ext "holdfast/internal/extstorage"
)

// Harness is a backend as the suite needs it.
type Harness struct {
	// Store is what is tested. Its database may hold other installs' data, but
	// nobody else may sweep it: a sweep reaches every install, and the suite
	// lets each of its tests live at a time of its own.
	Store    ext.Store
	Registry ext.Registry
	Installs ext.Installs

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
	known := Names()
	for name := range h.Exempt {
		if !slices.Contains(known, name) {
			t.Errorf("%s is exempt and does not exist", name)
		}
	}
	for _, g := range groups() {
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

// Names are those of all tests, as "Group/Test".
func Names() (all []string) {
	for _, g := range groups() {
		for _, c := range g.checks {
			all = append(all, g.name+"/"+c.name)
		}
	}
	return all
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
		{name: "Judge", checks: judgeChecks()},
		{name: "Guards", checks: guardChecks()},
		{name: "Revisions", checks: revisionChecks()},
		{name: "Batch", checks: batchChecks()},
		{name: "Quota", checks: quotaChecks()},
		{name: "Expiry", checks: expiryChecks()},
		{name: "List", checks: listChecks()},
		{name: "Export", checks: exportChecks()},
		{name: "Changes", checks: changeChecks()},
		{name: "Once", checks: onceChecks()},
		{name: "Audit", checks: auditChecks()},
		{name: "Registry", checks: registryChecks()},
		{name: "Installs", checks: installChecks()},
		{name: "Isolation", checks: isolationChecks()},
		{name: "Usage", checks: usageChecks()},
		{name: "Span", checks: spanChecks()},
		{name: "Faults", checks: faultChecks()},
		{name: "Sweep", checks: append(sweepChecks(), modelChecks()...), serial: true},
	}
}
