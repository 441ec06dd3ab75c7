package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binary is what is tested: HOLDFAST_BIN, or one that TestMain builds.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	if binary = os.Getenv("HOLDFAST_BIN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "holdfast-fault-")
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

// server is a running `holdfast serve`.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // of the main listener
	admin  string
	log    bytes.Buffer // to be read when it has ended
	ended  chan struct{}
	client *http.Client
}

// serve runs a server on ports of the system's choice and waits until it is
// ready. A port that is looked for beforehand may be taken when it is wanted:
// over thousands of starts it once is.
func serve(t *testing.T, vars []string) *server {
	t.Helper()
	s := &server{t: t, ended: make(chan struct{})}
	s.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: users * writersPerUser}}
	s.cmd = exec.Command(binary, "serve", "--migrate")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			s.cmd.Env = append(s.cmd.Env, kv)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")
	s.cmd.Env = append(s.cmd.Env, vars...)
	s.cmd.Stderr = &s.log
	stdout, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	announced := make(chan struct{})
	go func() {
		s.listen(stdout, announced)
		_ = s.cmd.Wait() // it is killed
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() && s.log.Len() > 0 {
			t.Logf("a server said:\n%s", &s.log)
		}
	})
	select {
	case <-announced:
	case <-s.ended:
		t.Fatal("the server ended at once")
	case <-time.After(bound):
		t.Fatal("the server does not say where it is")
	}
	s.await("/readyz")
	return s
}

// listen reads to the end what the server prints, and from it the addresses.
func (s *server) listen(stdout io.Reader, announced chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		words := append(strings.Fields(lines.Text()), "", "")
		switch words[0] {
		case "clients":
			s.url = words[1]
		case "admin":
			s.admin = words[1]
			close(announced)
		}
	}
}

// kill ends the server as a crash does.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
	s.client.CloseIdleConnections()
}

// await asks the admin listener until it answers with 200.
func (s *server) await(path string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+path, http.NoBody)
		must(s.t, err)
		last := ""
		if resp, err := s.client.Do(req); err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			last = string(body)
		}
		select {
		case <-tick.C:
		case <-s.ended:
			s.t.Fatal("the server ended")
		case <-ctx.Done():
			s.t.Fatalf("%s still answers %s", path, last)
		}
	}
}
