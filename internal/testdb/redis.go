package testdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var remedyRedis = Install("redis") + " (7 or newer), or set TEST_REDIS_URL"

// ErrNoRedis means that redis-server is not installed.
var ErrNoRedis = errors.New("redis-server is not installed")

var processRedis = sync.OnceValues(func() (*RedisServer, error) { return StartRedis() })

// Redis returns a shared server's URL. Each test must use its own key prefix, and must not flush the server.
func Redis(t testing.TB) string {
	t.Helper()
	needsServer(t, EngineRedis)
	url := os.Getenv("TEST_REDIS_URL")
	if url == "" {
		server, err := processRedis()
		installed(t, err)
		url = server.URL()
	}
	ran(t, EngineRedis)
	return url
}

func OwnRedis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	needsServer(t, EngineRedis)
	server, err := StartRedis(settings...)
	installed(t, err)
	t.Cleanup(server.Remove)
	ran(t, EngineRedis)
	return server
}

func installed(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoRedis) {
		absent(t, EngineRedis, remedyRedis)
	}
	if err != nil {
		t.Fatalf("redis-server is installed but does not start: %v", err)
	}
}

// RedisServer listens on a loopback port and ends with this process. It stores nothing on disk: a restart loses
// everything.
type RedisServer struct {
	daemon
	program, address string
	settings         []string
}

func StartRedis(settings ...string) (*RedisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoRedis
	}
	address, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-redis-")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{program: program, address: address, settings: settings}
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

func (s *RedisServer) Start() error {
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no"}, s.settings...)
	if err := s.run(s.program, args...); err != nil {
		return err
	}
	return s.await(func() error {
		_, err := s.Command("PING")
		return err
	})
}

func (s *RedisServer) Address() string { return s.address }

func (s *RedisServer) URL() string { return "redis://" + s.address }

// Pause stops the process, which accepts connections without responding until Continue.
func (s *RedisServer) Pause() error { return s.server.Process.Signal(syscall.SIGSTOP) }

func (s *RedisServer) Continue() error { return s.server.Process.Signal(syscall.SIGCONT) }

// Command sends a command on a new connection and returns the string or number in the reply.
func (s *RedisServer) Command(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', ':':
		return rest, nil
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		text := make([]byte, n)
		_, err = io.ReadFull(in, text)
		return string(text), err
	}
	return "", fmt.Errorf("%s: %s", args[0], strings.TrimSpace(line))
}

func (s *RedisServer) Must(t testing.TB, args ...string) string {
	t.Helper()
	text, err := s.Command(args...)
	if err != nil {
		t.Fatalf("Redis: %v", err)
	}
	return text
}

const slots = 16384

// RedisCluster starts three servers without replicas for a test.
func RedisCluster(t testing.TB) []*RedisServer {
	t.Helper()
	all := make([]*RedisServer, 3)
	for i := range all {
		bus, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(bus)
		all[i] = OwnRedis(t, "--cluster-enabled", "yes", "--cluster-port", port, "--cluster-node-timeout", "5000")
		all[i].Must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/len(all)), strconv.Itoa(slots*(i+1)/len(all)-1))
		all[i].Must(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			host, port, _ := net.SplitHostPort(all[i].address)
			_, bus, _ := net.SplitHostPort(bus)
			all[0].Must(t, "CLUSTER", "MEET", host, port, bus)
		}
	}
	for _, s := range all {
		err := s.await(func() error {
			info, err := s.Command("CLUSTER", "INFO")
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3")) {
				err = errors.New(info)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
