package suite

import (
	"context"
	"reflect"

	"holdfast/internal/errcode"
)

// TB is the part of testing.TB that cases use, also implemented by rapid.T.
type TB interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Equal compares values; empty and nil slices are equal.
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

// Must ends the test if err is not nil.
func Must(t TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func WantCode(t TB, what string, err error, codes ...errcode.Code) {
	t.Helper()
	for _, code := range codes {
		if errcode.Is(err, code) {
			return
		}
	}
	t.Errorf("%s: %v, want the code %v", what, err, codes)
}

// Winners counts the successes. Every other error must satisfy lost.
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
