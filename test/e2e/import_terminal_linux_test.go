package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// terminal opens a pseudoterminal: what the returned file reads and writes is the screen and the
// keyboard of a program that has the other one as standard input, output and errors.
func terminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudoterminal: mount devpts: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	var number, unlock int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, program
}

// TestImportAsks: on a terminal, an import asks whether the old server is stopped. With no, at the end
// of the input and after Ctrl-C it ends and can be continued; after yes it copies what was written
// while it asked.
func TestImportAsks(t *testing.T) {
	t.Parallel()
	old := testdb.MariaDBDatabase(t)
	const stamp = 1_700_000_000_000
	testdb.MariaDBScript(t, old, testdb.MozillaMySQL+putMozilla(1, 7, "first", stamp))
	env := append(binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_TOKENSERVER__ENABLED=false"), "TERM=xterm")
	const question = "Is it stopped? [y/N] "
	// answer types what reply returns when the question is shown, and returns the exit status and
	// what is shown then.
	answer := func(reply func() string) (status int, shown string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
		defer cancel()
		screen, program := terminal(t)
		cmd := exec.CommandContext(ctx, binary.Path(), "import", "syncstorage", "--from", old)
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, program, program, program
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctrl-C is a signal
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = program.Close()
		read := make([]byte, 4096)
		for {
			n, err := screen.Read(read)
			shown += string(read[:n])
			if strings.HasSuffix(shown, question) && reply != nil {
				if _, err := io.WriteString(screen, reply()); err != nil {
					t.Fatal(err)
				}
				shown, reply = "", nil
			}
			if err != nil { // EIO: the program has ended
				break
			}
		}
		if err := cmd.Wait(); err != nil {
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok {
				t.Fatal(err)
			}
			status = exit.ExitCode()
		}
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
