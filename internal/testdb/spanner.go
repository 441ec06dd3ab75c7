package testdb

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// ErrNoEmulator says that the machine has no emulator of Cloud Spanner.
var ErrNoEmulator = errors.New("the emulator of Cloud Spanner is not installed")

// remedySpanner is what a person does who has no emulator. Debian has none.
const remedySpanner = "install google-cloud-cli-spanner-emulator from Google's package source, or set TEST_SPANNER_EMULATOR_BIN or TEST_SPANNER_EMULATOR"

// emulator is the one of this test process, as process is for PostgreSQL.
var emulator = sync.OnceValues(StartSpanner)

// Spanner returns host:port of an emulator that tests share. Package
// spannertest makes databases in it.
func Spanner(t testing.TB) string {
	t.Helper()
	needsServer(t, EngineSpanner)
	host := os.Getenv("TEST_SPANNER_EMULATOR")
	if host == "" {
		host = started(t, emulator).Host()
	}
	ran(t, EngineSpanner)
	return host
}

// OwnSpanner starts an emulator of the test's own, which the test may stop,
// kill and start.
func OwnSpanner(t testing.TB) *SpannerServer {
	t.Helper()
	needsServer(t, EngineSpanner)
	s := started(t, StartSpanner)
	t.Cleanup(s.Remove)
	ran(t, EngineSpanner)
	return s
}

func started(t testing.TB, start func() (*SpannerServer, error)) *SpannerServer {
	t.Helper()
	s, err := start()
	if errors.Is(err, ErrNoEmulator) {
		absent(t, EngineSpanner, remedySpanner)
	}
	if err != nil {
		t.Fatalf("the emulator of Spanner is installed but does not start: %v", err)
	}
	return s
}

// SpannerServer is an emulator that this process started, and that ends with
// it. It keeps everything in memory: after Start it is empty.
type SpannerServer struct {
	daemon
	program string
	host    string
}

// StartSpanner starts an emulator.
func StartSpanner() (*SpannerServer, error) {
	program, err := findEmulator()
	if err != nil {
		return nil, err
	}
	host, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-spanner-")
	if err != nil {
		return nil, err
	}
	s := &SpannerServer{program: program, host: host}
	// The session of its own keeps a Ctrl-C for the tests from reaching it first.
	s.daemon = daemon{dir: dir, attr: &syscall.SysProcAttr{Setsid: true}, stop: syscall.SIGTERM, kill: syscall.SIGKILL}
	if err := s.guard(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Host is host:port of the emulator's gRPC. It stays when the emulator is
// stopped and started.
func (s *SpannerServer) Host() string { return s.host }

// serving is in what the emulator says when it serves. It shares its port with
// whoever else asks for the same, so an answer there would prove nothing.
const serving = "Server address: "

// Start starts the emulator and waits until it answers.
func (s *SpannerServer) Start() error {
	// What it said before it was stopped is not what it says now.
	if err := os.RemoveAll(s.log()); err != nil {
		return err
	}
	if err := s.run(s.program, "--host_port", s.host); err != nil {
		return err
	}
	return s.await(func() error {
		said, err := os.ReadFile(s.log())
		if err != nil {
			return err
		}
		if !bytes.Contains(said, []byte(serving)) {
			return errors.New("it has not named its address")
		}
		return nil
	})
}

// findEmulator returns the emulator's program.
func findEmulator() (string, error) {
	if path := os.Getenv("TEST_SPANNER_EMULATOR_BIN"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("emulator_main"); err == nil {
		return path, nil
	}
	home, _ := os.UserHomeDir() // without one, a folder that is not there is looked into
	for _, sdk := range []string{"/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", filepath.Join(home, "google-cloud-sdk")} {
		if path, err := exec.LookPath(filepath.Join(sdk, "bin/cloud_spanner_emulator/emulator_main")); err == nil {
			return path, nil
		}
	}
	return "", ErrNoEmulator
}
