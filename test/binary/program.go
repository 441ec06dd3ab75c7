package binary

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Program returns a program's path. If missing, it skips the test, or fails if TEST_REQUIRE names the program.
func Program(t *testing.T, name string) string {
	t.Helper()
	for _, where := range []string{name, "/usr/sbin/" + name} { // not in users' PATH on Debian
		if path, err := exec.LookPath(where); err == nil {
			return path
		}
	}
	Absentf(t, name, "%s is not installed", name)
	return ""
}

// Absentf skips a test because something is missing, or fails if TEST_REQUIRE names it.
func Absentf(t *testing.T, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("TEST_REQUIRE has "+name+": "+format, args...)
	}
	t.Skipf(format, args...)
}
