// Package binary builds the binary and runs it, for tests that use it like operators and clients.
package binary

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// path is the binary under test: HOLDFAST_BIN, or the one that Main builds.
var path string

// ProgramsVar names the folder of what Build compiles. A test that starts its own program again
// sets it for the new process.
const ProgramsVar = "HOLDFAST_TEST_PROGRAMS"

// programs is the folder of what Main and Build compile.
var programs struct {
	sync.Mutex
	dir string
}

// Main runs the tests of a package with the binary.
func Main(m *testing.M) int {
	dir := os.Getenv(ProgramsVar)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "holdfast-binary-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
	}
	programs.dir = dir
	if path = os.Getenv("HOLDFAST_BIN"); path != "" {
		return m.Run()
	}
	path = filepath.Join(dir, "holdfast")
	if err := build(path, "holdfast/cmd/holdfast"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// MainOfWaiting is Main for tests that wait more than they compute: for faults, processes, proxies.
// Up to n of them run in parallel, whatever the number of cores.
func MainOfWaiting(m *testing.M, n int) int {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
	return Main(m)
}

// build compiles one of our packages into a program.
func build(program, pkg string) error {
	// Another process may run what is there already.
	next := fmt.Sprintf("%s-%d", program, os.Getpid())
	cmd := exec.Command("go", "build", "-o", next, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return os.Rename(next, program)
}

// Build returns the path of a program that only tests need. It is compiled once for all tests of a
// package, or of all that share ProgramsVar.
func Build(t *testing.T, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	program := filepath.Join(programs.dir, filepath.Base(pkg))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if err := build(program, pkg); err != nil {
		t.Fatal(err)
	}
	return program
}

// Programs returns the folder of what Build compiles.
func Programs() string { return programs.dir }

// Path returns the path of the binary.
func Path() string { return path }

// Environ returns this process's environment without settings of Holdfast, and with vars. The system
// chooses the port for S3, and guests are not served, unless vars say otherwise: the first start with
// them takes a third more, and there are hundreds.
func Environ(vars ...string) []string {
	// Tests are bots: those that are not about their scores turn them off. They count the events
	// of changes: that a session has begun, which is published in the background, is not.
	env := []string{"HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_GUEST__BOTS__ENABLED=false", "HOLDFAST_GUEST__SAMPLE_SESSIONS=2147483647"}
	if !slices.Contains(vars, GuestsByDefault) {
		env = append(env, "HOLDFAST_GUEST__ENABLED=false")
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			env = append(env, kv)
		}
	}
	return append(env, vars...)
}

// GuestsByDefault among the vars leaves guests as they are by default. It means nothing to the server.
const GuestsByDefault = "TEST_GUESTS=default"

// Result is the result of a command.
type Result struct {
	Status         int
	Stdout, Stderr string
}

// Run runs a command to its end.
func Run(t *testing.T, env []string, args ...string) Result {
	t.Helper()
	return RunOf(t, path, env, args...)
}

// RunOf is Run with the binary of another release.
func RunOf(t *testing.T, path string, env []string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Bound) // a sweep or a backup may have much to do
	defer cancel()
	return run(t, ctx, exec.CommandContext(ctx, path, args...), env)
}

// RunSockets runs serve with sockets that the service manager has opened, as systemd passes them, until it ends.
func RunSockets(t *testing.T, sockets []*os.File, env []string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Bound)
	defer cancel()
	return run(t, ctx, socketed(ctx, sockets), env)
}

// socketed returns serve with sockets. Its process ID, which it checks, is known to a shell that becomes the server.
func socketed(ctx context.Context, sockets []*os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`LISTEN_FDS=%d LISTEN_PID=$$ exec "$0" serve`, len(sockets)), path)
	cmd.ExtraFiles = sockets
	return cmd
}

func run(t *testing.T, ctx context.Context, cmd *exec.Cmd, env []string) Result { //nolint:revive // t is first in tests
	t.Helper()
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("holdfast %s did not end:\n%s%s", strings.Join(cmd.Args[1:], " "), &stdout, &stderr)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Bound limits every wait. A machine that is busy with other tests may take seconds for each step of a start.
const Bound = 2 * time.Minute
