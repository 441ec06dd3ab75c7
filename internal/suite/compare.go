package suite

import (
	"context"
	"reflect"

	"holdfast/internal/errcode"
)

// TB is the part of testing.TB that cases use. rapid.T implements it.
type TB interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Equal compares two values of any shape. An empty slice equals a nil one.
func Equal[T any](t TB, what string, got, want T) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && g.Len() == 0 && w.Kind() == reflect.Slice && w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Must ends the test when an operation failed.
func Must(t TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// WantCode checks that an error has an expected code.
func WantCode(t TB, what string, err error, codes ...errcode.Code) {
	t.Helper()
	for _, code := range codes {
		if errcode.Is(err, code) {
			return
		}
	}
	t.Errorf("%s: %v, want the code %v", what, err, codes)
}

// Winners counts the callers that succeeded. Every other must have failed with an error that lost
// accepts.
func Winners(t TB, errs []error, lost func(error) bool) (n int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			n++
		case !lost(err):
			t.Errorf("a caller that lost: %v", err)
		}
	}
	return n
}
