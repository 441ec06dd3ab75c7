package ident_test

import (
	"strings"
	"testing"

	"holdfast/internal/ident"
)

func TestNew(t *testing.T) {
	t.Parallel()
	a, b := ident.New(), ident.New()
	if len(a) != 32 || a == b || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("ids %q, %q", a, b)
	}
	if got := len(ident.Hex(3)); got != 6 {
		t.Errorf("Hex(3) has %d digits", got)
	}
}

func TestValidRequestID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"": false, "abc-1_2.3": true, "a b": false, "a\nb": false, "é": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		if got := ident.ValidRequestID(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
