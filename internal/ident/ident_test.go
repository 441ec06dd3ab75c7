//test:unraced its goroutines share nothing

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

func TestParseUUID(t *testing.T) {
	t.Parallel()
	const id = "0123abcd-89ef-4567-89ab-cdef01234567"
	for text, want := range map[string]string{
		id: id, strings.ToUpper(id): id,
		"": "", ident.NilUUID: "", id[:35]: "", id + "0": "", "{" + id + "}": "",
		strings.ReplaceAll(id, "-", ""):        "",
		strings.Replace(id, "-", "0", 1):       "",
		strings.Replace(id, "0", "-", 1):       "",
		strings.Replace(id, "a", "g", 1):       "",
		strings.Replace(id, "ab", "\u0430", 1): "", // two bytes
	} {
		if got, ok := ident.ParseUUID(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}
