package binary

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Program is where a program is that a test starts. Where it is missing the
// test is skipped, or has failed when TEST_REQUIRE names it.
func Program(t *testing.T, name string) string {
	t.Helper()
	for _, where := range []string{name, "/usr/sbin/" + name} { // Debian keeps servers out of a user's PATH
		if path, err := exec.LookPath(where); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("%s is required by TEST_REQUIRE and is not installed", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}
