package testdb

import "testing"

// Sequential skips a test under the race detector, because its goroutines share nothing, or other tests of the package
// run the same goroutines at once. `make check` runs its package with the race detector and without it (see test/packages);
// `make soak` runs the test with both.
func Sequential(t testing.TB) {
	t.Helper()
	if Raced && !Soaking() {
		t.Skip("left to the run without the race detector")
	}
}
