package testdb

import (
	"os"
	"testing"
)

// Soaking reports whether tests that call SoakOnly run: always, except in `make test`, which sets TEST_WITHOUT_SOAK.
func Soaking() bool { return os.Getenv("TEST_WITHOUT_SOAK") == "" }

// SoakOnly skips a test in `make test`. why is the reason, e.g. that the test is slow or that another test covers it.
func SoakOnly(t testing.TB, why string) {
	t.Helper()
	if !Soaking() {
		t.Skipf("left to make soak PART=tests (to run it here, unset TEST_WITHOUT_SOAK): %s", why)
	}
}
