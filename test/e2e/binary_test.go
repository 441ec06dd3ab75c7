// Package e2e drives the built binary from outside, as an operator and a
// client would.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
)

// binary is what is tested: HOLDFAST_BIN, or one that TestMain builds.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	if binary = os.Getenv("HOLDFAST_BIN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "holdfast")
	cmd := exec.Command("go", "build", "-o", binary, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// environ is this process's environment without anything that configures
// Holdfast, and with vars.
func environ(vars ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			env = append(env, kv)
		}
	}
	return append(env, vars...)
}

// result is what a command came to.
type result struct {
	status         int
	stdout, stderr string
}

// command runs the binary to its end.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("holdfast %s did not end:\n%s%s", strings.Join(args, " "), &stdout, &stderr)
	}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// server is a running `holdfast serve`.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	env    []string
	data   string
	url    string // of the main listener
	admin  string
	output *output
	ended  chan struct{}
}

// start runs a server on free ports and waits until it is ready.
func start(t *testing.T, data string, vars ...string) *server {
	t.Helper()
	s := launch(t, data, vars...)
	s.await("/readyz", http.StatusOK)
	return s
}

// launch runs a server and waits until it is alive.
func launch(t *testing.T, data string, vars ...string) *server {
	t.Helper()
	main, admin := freePort(t), freePort(t)
	s := &server{
		t: t, data: data, url: "http://" + main, admin: "http://" + admin, output: &output{}, ended: make(chan struct{}),
		env: environ(append([]string{"HOLDFAST_SERVER__LISTEN=" + main, "HOLDFAST_SERVER__ADMIN_LISTEN=" + admin, "HOLDFAST_DATA=" + data}, vars...)...),
	}
	s.cmd = exec.Command(binary, "serve")
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		s.signal(syscall.SIGKILL)
		<-s.ended
		if t.Failed() {
			t.Logf("the server said:\n%s", s.output)
		}
	})
	s.await("/livez", http.StatusOK)
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func (s *server) signal(sig syscall.Signal) {
	select {
	case <-s.ended:
	default:
		_ = s.cmd.Process.Signal(sig)
	}
}

// kill ends the server as a crash would.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// await asks the admin listener until it answers with the status. The server
// has no other signal for a process that did not start it.
func (s *server) await(path string, status int) string {
	s.t.Helper()
	return s.awaitAnswer(path, func(got int, _ string) bool { return got == status })
}

// awaitMetric waits until a line is among the metrics.
func (s *server) awaitMetric(line string) {
	s.t.Helper()
	s.awaitAnswer("/metrics", func(_ int, body string) bool { return strings.Contains(body, "\n"+line+"\n") })
}

func (s *server) awaitAnswer(path string, done func(status int, body string) bool) string {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := "no answer"
	for {
		select {
		case <-s.ended:
			s.t.Fatalf("the server ended:\n%s", s.output)
		case <-deadline:
			s.t.Fatalf("%s still answers %s\n%s", path, last, s.output)
		case <-tick.C:
		}
		resp, err := http.Get(s.admin + path)
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if done(resp.StatusCode, string(body)) {
			return string(body)
		}
		last = fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
}

// get asks the main listener without credentials.
func (s *server) get(path string) (status int, body string) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// credentials are what `holdfast sync token` prints.
type credentials struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"`
}

func (s *server) token(uid int64, flags ...string) credentials {
	s.t.Helper()
	r := command(s.t, s.env, append([]string{"sync", "token", "--uid", fmt.Sprint(uid)}, flags...)...)
	var c credentials
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil || r.status != 0 {
		s.t.Fatalf("sync token: status %d, %v\n%s%s", r.status, err, r.stdout, r.stderr)
	}
	return c
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes a signed request; path begins behind the user's endpoint.
func (c credentials) send(method, path, body string) (answer, error) {
	req, err := http.NewRequest(method, c.Endpoint+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := hawk.SignHTTP(req, c.ID, c.Key, time.Now(), ""); err != nil {
		return answer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// want sends a request that must be answered with the status.
func (c credentials) want(t *testing.T, status int, method, path, body string) answer {
	t.Helper()
	a, err := c.send(method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a
}
