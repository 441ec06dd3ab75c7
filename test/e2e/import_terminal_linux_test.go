package e2e

import (
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestImportAsks checks that an import on a terminal asks whether the old server is stopped. After no, end of input or
// Ctrl-C it exits and can be continued. After yes it also copies data written before the answer.
func TestImportAsks(t *testing.T) {
	t.Parallel()
	old := testdb.MariaDBDatabase(t)
	const stamp = 1_700_000_000_000
	testdb.MariaDBScript(t, old, testdb.MozillaMySQL+putMozilla(1, 7, "first", stamp))
	env := append(binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_TOKENSERVER__ENABLED=false"), "TERM=xterm")
	const question = "Is it stopped? [y/N] "
	// answer runs an import, answers its question with reply's result, and returns the status and the later output.
	answer := func(reply func() string) (status int, shown string) {
		t.Helper()
		status, _, shown = typeOnTerminal(t, env, question, reply, "import", "syncstorage", "--from", old)
		return status, shown
	}
	const notStopped, endOfInput, interrupt = "Stop the other server, then run the same command with --stopped", "\x04", "\x03"
	for no, want := range map[string]string{
		"\n": notStopped, "no\n": notStopped, "maybe\n": notStopped, endOfInput: notStopped,
		interrupt: "\r\nholdfast: interrupted: run the same command again to continue",
	} {
		if status, shown := answer(func() string { return no }); status != 1 || !strings.Contains(shown, want) {
			t.Errorf("answer %q: status %d, %s", no, status, shown)
		}
	}
	if status, shown := answer(func() string {
		testdb.MariaDBScript(t, old, putMozilla(1, 7, "late", stamp+50))
		return "y\n"
	}); status != 0 || !strings.Contains(shown, "everything is imported and equal") || strings.Contains(shown, question) {
		t.Errorf("answer y: status %d, %s", status, shown)
	}
	r := binary.Run(t, env, "import", "syncstorage", "--from", old, "--verify")
	if r.Status != 0 || !strings.Contains(r.Stdout+r.Stderr, "are equal") {
		t.Errorf("verify: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}
