// Package suite runs conformance suites: the storetest packages, which define a service's store contract as tests.
package suite

import (
	"maps"
	"slices"
	"testing"

	"holdfast/internal/testdb"
)

type Case[E any] = struct {
	Name string
	Run  func(t *testing.T, e E)
}

// Group is a subject's cases. Groups and their cases run in parallel.
type Group[E any] struct {
	Name  string
	Cases []Case[E]

	// Serial runs cases in sequence, because they sweep all cases' data.
	Serial bool

	// Own gives each case its own database, because it reads whole tables.
	Own bool
}

type Suite[E any] struct {
	Groups []Group[E]

	// New opens a case's environment, which a cleanup closes.
	New func(t *testing.T, g Group[E]) E

	// Exempt maps skipped cases ("Group/Case") to the reason.
	Exempt map[string]string

	Soak Soak
}

// Soak lists the cases that `make check` leaves to `make soak`, because they are slow or covered by another backend.
type Soak struct {
	Why   string
	Cases []string
	But   []string // instead of Cases: all groups but these
}

func (s *Soak) leaves(group, name string) bool {
	return slices.Contains(s.Cases, group+"/"+name) || len(s.But) > 0 && !slices.Contains(s.But, group)
}

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
					if s.Soak.leaves(g.Name, c.Name) {
						testdb.SoakOnly(t, s.Soak.Why)
					}
					c.Run(t, s.New(t, g))
				})
			}
		})
	}
}

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
	groups := map[string]bool{}
	for _, g := range s.Groups {
		groups[g.Name] = true
	}
	for _, name := range s.Soak.Cases {
		if !known[name] {
			all = append(all, name+" is left to a soak and does not exist")
		}
	}
	for _, name := range s.Soak.But {
		if !groups[name] {
			all = append(all, name+" is not left to a soak and does not exist")
		}
	}
	if s.Soak.Why == "" && len(s.Soak.Cases)+len(s.Soak.But) > 0 {
		all = append(all, "cases are left to a soak without a reason")
	}
	return all
}

// Names returns all cases as "Group/Case".
func Names[E any](groups []Group[E]) (all []string) {
	for _, g := range groups {
		for _, c := range g.Cases {
			all = append(all, g.Name+"/"+c.Name)
		}
	}
	return all
}
