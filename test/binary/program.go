package binary

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Program returns the path of a program that a test starts. If it is missing, the test is skipped,
// or fails if TEST_REQUIRE names it.
func Program(t *testing.T, name string) string {
	t.Helper()
	for _, where := range []string{name, "/usr/sbin/" + name} { // Debian does not put servers into a user's PATH
		if path, err := exec.LookPath(where); err == nil {
			return path
		}
	}
	Absentf(t, name, "%s is not installed", name)
	return ""
}

// Absentf skips a test because something is missing, or fails it if TEST_REQUIRE names it.
func Absentf(t *testing.T, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("TEST_REQUIRE has "+name+": "+format, args...)
	}
	t.Skipf(format, args...)
}
