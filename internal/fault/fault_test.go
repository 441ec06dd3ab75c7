//test:unraced its goroutines share nothing

package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/fault"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	for _, tc := range []struct {
		name    string
		err     error
		code    fault.Code
		message string
	}{
		{"nil", nil, fault.Internal, ""},
		{"without a code", cause, fault.Internal, ""},
		{"coded", fault.New(fault.NotFound, "no such record"), fault.NotFound, "no such record"},
		{"through fmt", fmt.Errorf("get: %w", fault.New(fault.Quota, "full")), fault.Quota, "full"},
		{"outermost wins", fault.Wrap(fault.Unavailable, "try later", fault.New(fault.Conflict, "busy")), fault.Unavailable, "try later"},
	} {
		if got := fault.CodeOf(tc.err); got != tc.code {
			t.Errorf("%s: code %v, want %v", tc.name, got, tc.code)
		}
		if got := fault.Message(tc.err); got != tc.message {
			t.Errorf("%s: message %q, want %q", tc.name, got, tc.message)
		}
	}
	if !errors.Is(fault.Wrap(fault.Internal, "x", cause), cause) {
		t.Error("the cause is lost")
	}
	if fault.Is(nil, fault.Internal) {
		t.Error("nil carries a code")
	}
}

func TestCodeNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := fault.Internal; c <= fault.Unavailable; c++ {
		if seen[c.String()] || c.String() == "" {
			t.Errorf("code %d has no name of its own: %q", c, c)
		}
		seen[c.String()] = true
	}
	if got := fault.Code(200).String(); got != "code(200)" {
		t.Errorf("unknown code prints %q", got)
	}
}
