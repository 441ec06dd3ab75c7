package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"holdfast/test/binary"
)

// terminal opens a pseudoterminal. program is a process's standard input, output and error; screen is its screen and
// keyboard.
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

// typeOnTerminal runs a command on a terminal and types reply's result when the question appears. It returns the exit
// status and the output before and after the reply. Without a question, all output is in before.
func typeOnTerminal(t *testing.T, env []string, question string, reply func() string, typed ...string) (status int, before, after string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	screen, program := terminal(t)
	cmd := exec.CommandContext(ctx, binary.Path(), typed...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that Ctrl-C sends a signal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	shown, read := "", make([]byte, 4096)
	for {
		n, err := screen.Read(read)
		shown += string(read[:n])
		if reply != nil && strings.HasSuffix(shown, question) {
			if _, err := io.WriteString(screen, reply()); err != nil {
				t.Fatal(err)
			}
			before, shown, reply = shown, "", nil
		}
		if err != nil { // EIO: the program has ended
			break
		}
	}
	if reply == nil && before != "" {
		after = shown
	} else {
		before = shown
	}
	if err := cmd.Wait(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		status = exit.ExitCode()
	}
	return status, before, after
}

// TestDryRunBeforeQuestion checks that a dangerous command on a terminal shows a dry run before it asks. After no, it
// changes nothing.
func TestDryRunBeforeQuestion(t *testing.T) {
	t.Parallel()
	env := append(slices.Clone(binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true").Env), "TERM=xterm")
	run := func(typed ...string) binary.Result {
		t.Helper()
		r := binary.Run(t, env, append([]string{"ext"}, typed...)...)
		if r.Status != 0 {
			t.Fatalf("%v: status %d %s%s", typed, r.Status, r.Stdout, r.Stderr)
		}
		return r
	}
	run("installs", "set", "--tenant", consoleTenant, "--install", consoleInstall)
	remove := []string{"ext", "tenants", "delete", "--tenant", consoleTenant}
	const (
		preview  = "would be deleted from tenant " + consoleTenant + ": 1 install, 0 records, "
		question = "This cannot be undone. Delete tenant " + consoleTenant + "? [y/N] "
	)
	for _, answer := range []string{"n\n", "\n", "y\n"} {
		status, before, after := typeOnTerminal(t, env, question, func() string {
			if state := run("tenants", "show", "--tenant", consoleTenant).Stdout; !strings.Contains(state, "active") {
				t.Errorf("tenant during the question: %s", state)
			}
			return answer
		}, remove...)
		if !strings.HasPrefix(before, preview) || !strings.HasSuffix(before, question) {
			t.Errorf("before the answer: %q", before)
		}
		want, code := "nothing was changed", 2
		if answer == "y\n" {
			want, code = "deleted tenant "+consoleTenant, 0
		}
		if status != code || !strings.Contains(after, want) {
			t.Errorf("answer %q: status %d, %q", answer, status, after)
		}
	}
	if state := run("tenants", "show", "--tenant", consoleTenant).Stdout; !strings.Contains(state, "deleted") {
		t.Errorf("tenant at the end: %s", state)
	}
}

// TestBytesOnTerminal checks that sizes have a unit on a terminal, and all digits in a pipe.
func TestBytesOnTerminal(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_EXTSTORAGE__ENABLED=true")
	env := append(slices.Clone(s.Env), "TERM=xterm")
	for _, tc := range []struct {
		typed          []string
		people, script string
	}{
		{[]string{"buckets", "quotas", "set", "main", "--bytes", "1610612736"}, "1.5 GiB", "1610612736"},
		{[]string{"ext", "installs", "set", "--tenant", consoleTenant, "--install", consoleInstall}, "256.0 MiB, ", "268435456 bytes, "},
		{[]string{"ext", "installs", "list"}, " 0 B ", " 0 "}, // shown as a bar in the console
	} {
		r := binary.Run(t, env, tc.typed...)
		status, shown, _ := typeOnTerminal(t, env, "", nil, tc.typed...)
		if r.Status != 0 || !strings.Contains(r.Stdout, tc.script) || strings.Contains(r.Stdout, tc.people) {
			t.Errorf("%v in a pipe: status %d, %s", tc.typed, r.Status, r.Stdout+r.Stderr)
		}
		if status != 0 || !strings.Contains(shown, tc.people) || strings.Contains(shown, tc.script) && tc.script != " 0 " {
			t.Errorf("%v on a terminal: status %d, %s", tc.typed, status, shown)
		}
	}
}
