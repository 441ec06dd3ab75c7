// Package suite runs conformance suites: the storetest packages, each of which is the contract of
// a service's stores as tests.
//
// A service provides the cases, in groups, and their environment. This package provides names,
// exemptions, parallelism, comparisons, fault injection at each point of an engine, and random
// walks against a model.
package suite

import (
	"maps"
	"slices"
	"testing"
)

// Case is one test; E is its environment.
type Case[E any] = struct {
	Name string
	Run  func(t *testing.T, e E)
}

// Group is the cases of one subject. Groups run in parallel, and so do the cases of a group.
type Group[E any] struct {
	Name  string
	Cases []Case[E]

	// Serial runs the cases one after the other, because they sweep the data of all cases.
	Serial bool

	// Own gives each case its own database, because it reads whole tables.
	Own bool
}

// Suite is the contract of one backend.
type Suite[E any] struct {
	Groups []Group[E]

	// New opens the environment of a case; a cleanup of t closes it.
	New func(t *testing.T, g Group[E]) E

	// Exempt names cases that do not apply to the backend ("Group/Case"), with the reason. They
	// are not run.
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
				if _, exempt := s.Exempt[g.Name+"/"+c.Name]; exempt {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					if !g.Serial {
						t.Parallel()
					}
					c.Run(t, s.New(t, g))
				})
			}
		})
	}
}

// problems returns mistakes in the suite itself: an exemption must match exactly one case and have
// a reason.
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
