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

// ErrNoEmulator means that the Spanner emulator is not installed.
var ErrNoEmulator = errors.New("the emulator of Cloud Spanner is not installed")

// remedySpanner names Google's packages, because Debian has no emulator.
const remedySpanner = "install google-cloud-cli-spanner-emulator from Google's package source, or set TEST_SPANNER_EMULATOR_BIN or TEST_SPANNER_EMULATOR"

var emulator = sync.OnceValues(StartSpanner)

// Spanner returns a shared emulator's host:port. Package spannertest creates databases in it.
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

// SpannerServer is an emulator that ends with this process. Its data is in memory, so Start empties it.
type SpannerServer struct {
	daemon
	program string
	host    string
}

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

// Host returns the gRPC service's host:port, which survives restarts.
func (s *SpannerServer) Host() string { return s.host }

// serving is logged by an emulator that is ready. A connection would not prove it, because another process may share
// the port.
const serving = "Server address: "

func (s *SpannerServer) Start() error {
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
			return errors.New("the log has no address")
		}
		return nil
	})
}

func findEmulator() (string, error) {
	if path := os.Getenv("TEST_SPANNER_EMULATOR_BIN"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("emulator_main"); err == nil {
		return path, nil
	}
	home, _ := os.UserHomeDir()
	for _, sdk := range []string{"/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", filepath.Join(home, "google-cloud-sdk")} {
		if path, err := exec.LookPath(filepath.Join(sdk, "bin/cloud_spanner_emulator/emulator_main")); err == nil {
			return path, nil
		}
	}
	return "", ErrNoEmulator
}
