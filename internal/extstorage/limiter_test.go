package extstorage_test

import (
	"testing"

	ext "holdfast/internal/extstorage"
)

// TestTenantLimiter: an install gets no more than its share, also while there is room,
// and nobody gets more than there is.
func TestTenantLimiter(t *testing.T) {
	t.Parallel()
	s := ext.NewTenantLimiter(3, 2)
	a, b := ext.Owner{Tenant: "t", Install: "a"}, ext.Owner{Tenant: "t", Install: "b"}
	var leaves []func()
	for i, c := range []struct {
		owner ext.Owner
		want  bool
	}{{a, true}, {a, true}, {a, false}, {b, true}, {b, false}} {
		leave, ok := s.Enter(c.owner)
		if ok != c.want {
			t.Fatalf("%d: %v, want %v", i, ok, c.want)
		}
		if ok {
			leaves = append(leaves, leave)
		}
	}
	leaves[0]()
	if _, ok := s.Enter(b); !ok {
		t.Error("a place that was given back is not there")
	}
	if _, ok := s.Enter(a); ok {
		t.Error("there are more places than there are")
	}
}
