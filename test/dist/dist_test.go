// Package dist tests release files: they are complete and reproducible, dpkg, rpm and systemd accept them, and their
// programs start.
package dist

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Parameters of the tested release. Other architectures would take minutes to compile.
const (
	version = "v1.2.3"
	commit  = "0123abc"
	epoch   = 1700000000                         // seconds
	tags    = "disable_grpc_modules,grpcnotrace" // as in the Makefile
)

type arch struct{ dist, deb, rpm, apk string }

var arches = map[string]arch{
	"amd64": {"amd64", "amd64", "x86_64", "x86_64"},
	"arm64": {"arm64", "arm64", "aarch64", "aarch64"},
	"arm":   {"armv7", "armhf", "armv7hl", "armv7"},
}

var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "holdfast-dist-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

func native(t *testing.T) arch {
	t.Helper()
	a, ok := arches[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skipf("needs Linux on a released architecture: this is %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	return a
}

// need skips a test if a program is missing, or fails it if TEST_REQUIRE names the program's package.
func need(t *testing.T, pkg string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		binary.Absentf(t, pkg, "no %s: install %s", program, pkg)
	}
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to " + why)
	}
}

// release returns the folder with a release, which is built once.
func release(t *testing.T) string {
	t.Helper()
	native(t)
	dir, err := released()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func tree(t *testing.T) string {
	t.Helper()
	return filepath.Join(release(t), "linux_"+native(t).dist)
}

var released = sync.OnceValues(func() (string, error) { return makeRelease("here-", "umask 022") })

// makeRelease copies the source and builds a release from the copy, after a shell command. The files must not depend on
// the folder.
func makeRelease(where, first string) (string, error) {
	dir, err := os.MkdirTemp(scratch, where)
	if err != nil {
		return "", err
	}
	source, out := filepath.Join(dir, "source"), filepath.Join(dir, "dist")
	for _, part := range []string{"client", "cmd", "docs", "internal", "packaging"} {
		if err := os.CopyFS(filepath.Join(source, part), os.DirFS(filepath.Join("..", "..", part))); err != nil {
			return "", err
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "CONTACT"} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(source, file), text, 0o600); err != nil {
			return "", err
		}
	}
	cmd := releaseCommand(first, filepath.Join(source, "packaging", "release"),
		"-source", source, "-out", out, "-version", version, "-commit", commit, "-tags", tags,
		"-ldflags", "-X main.version="+version+" -X main.commit="+commit, fmt.Sprintf("-epoch=%d", epoch),
		arches[runtime.GOARCH].dist)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("packaging/release: %w\n%s", err, text)
	}
	return out, nil
}

func releaseCommand(first, source string, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", first + `; exec go run . "$@"`, "sh"}, args...)...)
	cmd.Dir = source
	// These are the Makefile's flags, so that nothing is compiled twice.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -tags="+tags)
	return cmd
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

// serve runs a server on free ports until the test ends, and returns its admin address once it is ready.
func serve(t *testing.T, cmd *exec.Cmd) (admin string) {
	t.Helper()
	socket := "@" + t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	// The log is a file, because a file contains all output as soon as the server is ready.
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended); manager.Close() }()
	said := func() string {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("%v:\n%s", cmd.ProcessState, said())
		}
		log.Close()
	})
	if err := manager.SetReadDeadline(time.Now().Add(binary.Bound)); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 64)
	if n, err := manager.Read(word); err != nil || string(word[:n]) != "READY=1" {
		t.Fatalf("the server said %q, %v:\n%s", word[:n], err, said())
	}
	where := regexp.MustCompile(`(?m)^  admin +http://(\S+)`).FindStringSubmatch(said())
	if where == nil {
		t.Fatalf("the server does not say where it is:\n%s", said())
	}
	return where[1]
}
