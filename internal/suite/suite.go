// Package suite runs conformance suites: the storetest packages, each of which
// is the contract of a service's stores as tests.
//
// A service brings the cases, in groups, and the environment that a case runs
// in. The frame is here: names, exemptions, what runs in parallel, comparisons,
// engines that fail at each of their points, random walks against a model.
package suite

import (
	"maps"
	"slices"
	"testing"
)

// Case is one test; E is the environment that it gets.
type Case[E any] = struct {
	Name string
	Run  func(t *testing.T, e E)
}

// Group is the cases of one subject. Groups run in parallel, and so do the cases
// of a group.
type Group[E any] struct {
	Name  string
	Cases []Case[E]

	// Serial runs the cases one after the other: for those that sweep, which
	// reaches the data of every case.
	Serial bool

	// Own gives each case a database of its own: for those that look at whole
	// tables.
	Own bool
}

// Suite is a contract on one backend.
type Suite[E any] struct {
	Groups []Group[E]

	// New makes the environment of a case; a cleanup of t closes what it opens.
	New func(t *testing.T, g Group[E]) E

	// Exempt names cases that do not hold on the backend ("Group/Case"), with the
	// reason.
	Exempt map[string]string
}

// Run runs every case that is not exempt.
func (s Suite[E]) Run(t *testing.T) {
	t.Helper()
	for _, problem := range s.problems() {
		t.Error(problem)
	}
	for _, g := range s.Groups {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.Cases {
				t.Run(c.Name, func(t *testing.T) {
					if !g.Serial {
						t.Parallel()
					}
					if reason, exempt := s.Exempt[g.Name+"/"+c.Name]; exempt {
						t.Skip("exempt: " + reason)
					}
					c.Run(t, s.New(t, g))
				})
			}
		})
	}
}

// problems are mistakes in the suite itself: an exemption must mean exactly one
// case and say why.
func (s Suite[E]) problems() (all []string) {
	known := map[string]bool{}
	for _, name := range Names(s.Groups) {
		if known[name] {
			all = append(all, "two cases are called "+name)
		}
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.Exempt)) {
		if !known[name] {
			all = append(all, name+" is exempt and does not exist")
		}
		if s.Exempt[name] == "" {
			all = append(all, name+" is exempt without a reason")
		}
	}
	return all
}

// Names returns the names of all cases, as "Group/Case".
func Names[E any](groups []Group[E]) (all []string) {
	for _, g := range groups {
		for _, c := range g.Cases {
			all = append(all, g.Name+"/"+c.Name)
		}
	}
	return all
}
