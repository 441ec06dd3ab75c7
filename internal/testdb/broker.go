package testdb

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These errors mean that a broker is not installed.
var (
	ErrNoPubSub = errors.New("the emulator of Pub/Sub is not installed")
	ErrNoNATS   = errors.New("nats-server is not installed")
)

const (
	remedyPubSub = "install google-cloud-cli-pubsub-emulator from Google's package source and Java, or set TEST_PUBSUB_EMULATOR"
	remedyNATS   = "install nats-server, or set TEST_NATS to its host:port"
)

var (
	processPubSub = sync.OnceValues(StartPubSub)
	processNATS   = sync.OnceValues(StartNATS)
)

// BrokerServer is a message broker on a loopback port that ends with this process.
type BrokerServer struct {
	daemon
	address string
	program string
	args    []string
}

// PubSub returns host:port of a shared Pub/Sub emulator. Each test uses its own topics.
func PubSub(t testing.TB) string {
	t.Helper()
	return sharedBroker(t, EnginePubSub, "TEST_PUBSUB_EMULATOR", remedyPubSub, processPubSub)
}

// OwnPubSub starts an emulator for a test.
func OwnPubSub(t testing.TB) *BrokerServer {
	t.Helper()
	return ownBroker(t, EnginePubSub, remedyPubSub, StartPubSub)
}

// NATS returns host:port of a shared JetStream server. Each test uses its own subjects.
func NATS(t testing.TB) string {
	t.Helper()
	return sharedBroker(t, EngineNATS, "TEST_NATS", remedyNATS, processNATS)
}

// OwnNATS starts a server for a test. Its streams survive a restart.
func OwnNATS(t testing.TB) *BrokerServer {
	t.Helper()
	return ownBroker(t, EngineNATS, remedyNATS, StartNATS)
}

// sharedBroker returns the server in a variable, or starts one for this process.
func sharedBroker(t testing.TB, engine, variable, remedy string, start func() (*BrokerServer, error)) string {
	t.Helper()
	needsServer(t, engine)
	address := os.Getenv(variable)
	if address == "" {
		s, err := start()
		haveBroker(t, engine, remedy, err)
		address = s.address
	}
	ran(t, engine)
	return address
}

func ownBroker(t testing.TB, engine, remedy string, start func() (*BrokerServer, error)) *BrokerServer {
	t.Helper()
	needsServer(t, engine)
	s, err := start()
	haveBroker(t, engine, remedy, err)
	t.Cleanup(s.Remove)
	ran(t, engine)
	return s
}

// haveBroker skips the test if the broker is not installed.
func haveBroker(t testing.TB, engine, remedy string, err error) {
	t.Helper()
	if errors.Is(err, ErrNoPubSub) || errors.Is(err, ErrNoNATS) {
		absent(t, engine, remedy)
	}
	if err != nil {
		t.Fatalf("%s is installed but does not start: %v", engine, err)
	}
}

// StartPubSub starts an emulator, or returns ErrNoPubSub.
func StartPubSub() (*BrokerServer, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, ErrNoPubSub
	}
	home, _ := os.UserHomeDir()
	for _, sdk := range []string{"/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", filepath.Join(home, "google-cloud-sdk")} {
		jars, _ := filepath.Glob(filepath.Join(sdk, "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar"))
		if len(jars) > 0 {
			return startBroker("pubsub", java, func(host, port, _ string) []string {
				return []string{"-Xmx256m", "-jar", jars[0], "--host=" + host, "--port=" + port}
			})
		}
	}
	return nil, ErrNoPubSub
}

// StartNATS starts a server with JetStream, or returns ErrNoNATS.
func StartNATS() (*BrokerServer, error) {
	program, err := exec.LookPath("nats-server")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nats-server"); err != nil {
			return nil, ErrNoNATS
		}
	}
	return startBroker("nats", program, func(host, port, dir string) []string {
		return []string{"--addr", host, "--port", port, "--jetstream", "--store_dir", filepath.Join(dir, "store")}
	})
}

// startBroker runs a program with the arguments for its address and its folder.
func startBroker(name, program string, args func(host, port, dir string) []string) (*BrokerServer, error) {
	address, err := FreePort()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-"+name+"-")
	if err != nil {
		return nil, err
	}
	s := &BrokerServer{address: address, program: program, args: args(host, port, dir)}
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

// Start starts a stopped server at the same address.
func (s *BrokerServer) Start() error {
	if err := s.run(s.program, s.args...); err != nil {
		return err
	}
	return s.await(func() error {
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Address returns host:port, which survives restarts.
func (s *BrokerServer) Address() string { return s.address }
