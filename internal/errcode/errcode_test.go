//test:unraced its goroutines share nothing

package errcode_test

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	for _, tc := range []struct {
		name    string
		err     error
		code    errcode.Code
		message string
	}{
		{"nil", nil, errcode.Internal, ""},
		{"without a code", cause, errcode.Internal, ""},
		{"coded", errcode.New(errcode.NotFound, "no such record"), errcode.NotFound, "no such record"},
		{"through fmt", fmt.Errorf("get: %w", errcode.New(errcode.Quota, "full")), errcode.Quota, "full"},
		{"outermost wins", errcode.Wrap(errcode.Unavailable, "try later", errcode.New(errcode.Conflict, "busy")), errcode.Unavailable, "try later"},
	} {
		if got := errcode.Of(tc.err); got != tc.code {
			t.Errorf("%s: code %v, want %v", tc.name, got, tc.code)
		}
		if got := errcode.Message(tc.err); got != tc.message {
			t.Errorf("%s: message %q, want %q", tc.name, got, tc.message)
		}
	}
	if !errors.Is(errcode.Wrap(errcode.Internal, "x", cause), cause) {
		t.Error("the cause is lost")
	}
	if errcode.Is(nil, errcode.Internal) {
		t.Error("nil carries a code")
	}
}

func TestCodeNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := errcode.Internal; c <= errcode.Unavailable; c++ {
		if seen[c.String()] || c.String() == "" {
			t.Errorf("code %d has no name of its own: %q", c, c)
		}
		seen[c.String()] = true
	}
	if got := errcode.Code(200).String(); got != "code(200)" {
		t.Errorf("unknown code prints %q", got)
	}
}
