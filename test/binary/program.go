package binary

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Program returns the path of a program. If the program is missing, Program skips the test, or fails it if
// TEST_REQUIRE names the program.
func Program(t *testing.T, name string) string {
	t.Helper()
	for _, where := range []string{name, "/usr/sbin/" + name} { // /usr/sbin is not in PATH for users on Debian
		if path, err := exec.LookPath(where); err == nil {
			return path
		}
	}
	Absentf(t, name, "%s is not installed", name)
	return ""
}

// Absentf skips a test because something is missing, or fails it if TEST_REQUIRE names the missing thing.
func Absentf(t *testing.T, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("TEST_REQUIRE has "+name+": "+format, args...)
	}
	t.Skipf(format, args...)
}
