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
	Absentf(t, name, "%s is not installed", name)
	return ""
}

// Absentf skips a test for which something is missing and says what, or fails it
// where TEST_REQUIRE names that.
func Absentf(t *testing.T, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("TEST_REQUIRE has "+name+": "+format, args...)
	}
	t.Skipf(format, args...)
}
