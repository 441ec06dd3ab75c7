//test:unraced its goroutines share nothing

package testdb_test

import (
	"testing"

	"holdfast/internal/testdb"
)

// TestFreePort: two servers never get the same port, although none of them listens yet.
func TestFreePort(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 { // of 20,000 ports drawn at random about 25 would be drawn twice
		address, err := testdb.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Errorf("%s twice", address)
		}
		seen[address] = true
	}
}
