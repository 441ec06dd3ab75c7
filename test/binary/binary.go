// Package binary builds and runs the binary for tests that use it like operators and clients.
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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

var path string

// ProgramsVar names the environment variable with the output folder of Build. A test that restarts its own program
// sets it for the new process.
const ProgramsVar = "HOLDFAST_TEST_PROGRAMS"

var programs struct {
	sync.Mutex
	dir string
}

// Main runs a package's tests with the binary.
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

// Select chooses the tests of TEST_SET; see testdb.Set. `make test` runs the quick tests, by name, and `make check` the
// others. With -run, `make test` runs those quick tests that the pattern matches. Call it before Main.
func Select(quick ...string) {
	flag.Parse()
	all := "^(" + strings.Join(quick, "|") + ")$"
	switch testdb.Set() {
	case testdb.QuickSet:
		if run := flag.Lookup("test.run").Value.String(); run != "" {
			top, _, _ := strings.Cut(run, "/")
			pattern, err := regexp.Compile(top)
			if err != nil {
				return // go test says what is wrong
			}
			all = "^(" + strings.Join(slices.DeleteFunc(slices.Clone(quick), func(name string) bool { return !pattern.MatchString(name) }), "|") + ")$"
		}
		setFlag("test.run", all)
	case testdb.CheckSet:
		if flag.Lookup("test.run").Value.String() == "" {
			setFlag("test.skip", all)
		}
	}
}

// setFlag sets a flag of package testing. An error is a fault of the caller.
func setFlag(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

// MainOfWaiting is like Main, but for tests that mostly wait. Up to n of them run in parallel.
func MainOfWaiting(m *testing.M, n int) int {
	setFlag("test.parallel", strconv.Itoa(n))
	return Main(m)
}

func build(program, pkg string) error {
	// Another process may be running the existing program.
	next := fmt.Sprintf("%s-%d", program, os.Getpid())
	cmd := exec.Command("go", "build", "-o", next, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return os.Rename(next, program)
}

// Build compiles a test program once per package, or once for all packages that share ProgramsVar.
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

// Programs returns the output folder of Build.
func Programs() string { return programs.dir }

func Path() string { return path }

// Environ returns the environment without Holdfast's settings, and adds vars. By default the S3 port is chosen
// automatically and guests are disabled, because hundreds of first starts would otherwise take a third longer.
func Environ(vars ...string) []string {
	// Tests look like bots, so scores are off. The background event for a new session is also off, because tests count
	// change events.
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

// GuestsByDefault in vars keeps the default guest settings.
const GuestsByDefault = "TEST_GUESTS=default"

type Result struct {
	Status         int
	Stdout, Stderr string
}

// Run runs a command and waits until it ends.
func Run(t *testing.T, env []string, args ...string) Result {
	t.Helper()
	return RunOf(t, path, env, args...)
}

// RunOf is like Run, but uses the binary of another release.
func RunOf(t *testing.T, path string, env []string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Bound) // a sweep or backup may take long
	defer cancel()
	return run(t, ctx, exec.CommandContext(ctx, path, args...), env)
}

// RunSockets runs serve with sockets opened like systemd's, and waits until it ends.
func RunSockets(t *testing.T, sockets []*os.File, env []string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Bound)
	defer cancel()
	return run(t, ctx, socketed(ctx, sockets), env)
}

// socketed starts serve through a shell, because serve checks a process ID that only the shell knows beforehand.
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

// Bound limits every wait. On a busy machine, each step of a start may take seconds.
var Bound = testdb.Patient(2 * time.Minute)
