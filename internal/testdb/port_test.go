//test:unraced its goroutines share nothing

package testdb_test

import (
	"testing"

	"holdfast/internal/testdb"
)

// TestFreePort checks that two servers never get the same port, even before they listen.
func TestFreePort(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 { // of 20,000 random ports, about 25 would repeat
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
