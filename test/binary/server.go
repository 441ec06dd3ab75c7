package binary

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a running `holdfast serve`.
type Server struct {
	t      *testing.T
	Cmd    *exec.Cmd
	Env    []string // environment for commands
	Data   string
	URL    string // main listener, without the name and prefix of a public URL
	Admin  string
	Output *Output
	Ended  chan struct{}
}

// Start starts a server and waits until it is ready.
func Start(t *testing.T, data string, vars ...string) *Server {
	t.Helper()
	s := Launch(t, data, vars...)
	s.Await("/readyz", http.StatusOK)
	return s
}

// Migrate migrates the databases that these settings name. SQLite files are made by the server's first start.
func Migrate(t *testing.T, data string, vars ...string) {
	t.Helper()
	if r := Run(t, Environ(append(vars, "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 && !strings.Contains(r.Stderr, "A new server needs no migration") {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
}

// UsedData makes a data folder as a server leaves it that did not get to its databases. Without one, holdfast migrate
// makes no SQLite files.
func UsedData(t *testing.T, data string) string {
	t.Helper()
	err := os.MkdirAll(data, 0o700)
	if err == nil {
		const saved = "[server]\nmaster_secret = \"a master secret that has over 32 characters\"\nadmin_token = \"a token\"\n"
		err = os.WriteFile(filepath.Join(data, "secrets.toml"), []byte(saved), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// announced matches the addresses that serve prints. A public URL precedes the listen address.
var announced = regexp.MustCompile(`(?m)^  clients +(\S+)(?: \(listening on (\S+)\))?\n  admin +(\S+)` +
	`|"clients":"([^"]+)",(?:"clients_note":"listening on ([^"]+)",)?"admin":"([^"]+)"`)

var s3Announced = regexp.MustCompile(`(?m)^  s3 +\w+://(\S+)$|"s3":"\w+://([^"]+)"`)

// Launch starts a server and waits until it is alive.
func Launch(t *testing.T, data string, vars ...string) *Server {
	t.Helper()
	return LaunchOf(t, path, data, vars...)
}

// LaunchOf is like Launch, but uses the binary of another release.
func LaunchOf(t *testing.T, path, data string, vars ...string) *Server {
	t.Helper()
	return LaunchProgram(t, path, data, vars...)
}

// LaunchProgram is like Launch, but starts another program with the same command line.
func LaunchProgram(t *testing.T, program, data string, vars ...string) *Server {
	t.Helper()
	return launch(t, exec.Command(program, "serve"), data, vars)
}

// LaunchFlags is like Launch, but passes flags to serve.
func LaunchFlags(t *testing.T, flags []string, data string, vars ...string) *Server {
	t.Helper()
	return launch(t, exec.Command(path, append([]string{"serve"}, flags...)...), data, vars)
}

// LaunchSockets is like Launch, but passes sockets opened like systemd's.
func LaunchSockets(t *testing.T, sockets []*os.File, data string, vars ...string) *Server {
	t.Helper()
	return launch(t, socketed(context.WithoutCancel(t.Context()), sockets), data, vars)
}

func launch(t *testing.T, cmd *exec.Cmd, data string, vars []string) *Server {
	t.Helper()
	s := &Server{t: t, Cmd: cmd, Data: data, Output: &Output{}, Ended: make(chan struct{})}
	// The system chooses the ports. In thousands of starts, a port that was free before is sometimes taken.
	s.Env = Environ(append([]string{"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_DATA=" + data}, vars...)...)
	s.Cmd.Env, s.Cmd.Stdout, s.Cmd.Stderr = s.Env, s.Output, s.Output
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Cmd.Wait(); close(s.Ended) }() // the exit status is in ProcessState
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the server said:\n%s", s.Output)
		}
	})
	where := s.Output.Await(announced, s.Ended)
	if where == nil {
		t.Fatalf("the server does not say where it is:\n%s", s.Output)
	}
	s.URL, s.Admin = cmp.Or(where[2], where[1], where[5], where[4]), cmp.Or(where[3], where[6])
	_, listen, _ := strings.Cut(s.URL, "://")
	_, admin, _ := strings.Cut(s.Admin, "://")
	s.Env = append(s.Env, "HOLDFAST_SERVER__LISTEN="+listen, "HOLDFAST_SERVER__ADMIN_LISTEN="+admin)
	if found := s3Announced.FindStringSubmatch(s.Output.String()); found != nil {
		s.Env = append(s.Env, "HOLDFAST_BUCKETS__LISTEN="+cmp.Or(found[1], found[2]))
	}
	s.Await("/livez", http.StatusOK)
	return s
}

func (s *Server) Signal(sig syscall.Signal) {
	select {
	case <-s.Ended:
	default:
		_ = s.Cmd.Process.Signal(sig)
	}
}

func (s *Server) Kill() {
	s.Signal(syscall.SIGKILL)
	<-s.Ended
}

// Await polls the admin listener until it responds with the status.
func (s *Server) Await(path string, status int) string {
	s.t.Helper()
	return s.AwaitAnswer(path, func(got int, _ string) bool { return got == status })
}

func (s *Server) AwaitMetric(line string) {
	s.t.Helper()
	s.AwaitAnswer("/metrics", func(_ int, body string) bool { return strings.Contains(body, "\n"+line+"\n") })
}

// AwaitAnswer polls the admin listener until done accepts the response.
func (s *Server) AwaitAnswer(path string, done func(status int, body string) bool) string {
	s.t.Helper()
	return s.AwaitLong(Bound, path, done)
}

func (s *Server) AwaitLong(most time.Duration, path string, done func(status int, body string) bool) string {
	s.t.Helper()
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	last := "no answer"
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if resp, err := plain.Get(s.Admin + path); err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if done(resp.StatusCode, string(body)) {
				return string(body)
			}
			last = fmt.Sprintf("%d %s", resp.StatusCode, body)
		}
		select {
		case <-s.Ended:
			s.t.Fatalf("the server ended:\n%s", s.Output)
		case <-deadline.C:
			s.t.Fatalf("%s still answers %s\n%s", path, last, s.Output)
		case <-time.After(pause): // each read of the metrics costs the server a few milliseconds
		}
	}
}

var plain = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Second}}

func (s *Server) AwaitOutput(re string) []string {
	s.t.Helper()
	found := s.Output.Await(regexp.MustCompile(re), s.Ended)
	if found == nil {
		s.t.Fatalf("no %s in\n%s", re, s.Output)
	}
	return found
}

func (s *Server) Internal() string {
	s.t.Helper()
	return s.AwaitOutput(`(?m)^  internal +(\S+)$`)[1]
}

// Get sends an anonymous GET to the main listener.
func (s *Server) Get(path string) (status int, body string) {
	s.t.Helper()
	resp, err := http.Get(s.URL + path)
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

// Verb runs a command on the server's data and fails the test if the command fails.
func (s *Server) Verb(args ...string) string {
	s.t.Helper()
	r := Run(s.t, s.Env, args...)
	if r.Status != 0 {
		s.t.Fatalf("holdfast %s: status %d\n%s%s", strings.Join(args, " "), r.Status, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

func (s *Server) Token(uid int64, flags ...string) Credentials {
	s.t.Helper()
	out := s.Verb(append([]string{"sync", "tokens", "create", "--json", "--uid", fmt.Sprint(uid)}, flags...)...)
	var c Credentials
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		s.t.Fatalf("sync token: %v\n%s", err, out)
	}
	return c
}
