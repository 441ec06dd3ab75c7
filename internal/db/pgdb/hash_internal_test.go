package pgdb

import (
	"testing"
)

// TestHashes compares with results of Citus's worker_hash.
func TestHashes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value any
		want  int32
	}{
		{int64(42), 1509752520},
		{int64(-3), -1044245375},
		{"0b39fa7e-0f3e-4d6f-9c3f-b4d4a25c1be5", 1720681344},
	} {
		if got, ok := hashOf(tc.value); !ok || got != tc.want {
			t.Errorf("hash of %v: %d, %v, want %d", tc.value, got, ok, tc.want)
		}
	}
	for _, value := range []any{nil, "", "0b39fa7e", 3, []byte("x")} {
		if _, ok := hashOf(value); ok {
			t.Errorf("%v has a hash", value)
		}
	}
}
