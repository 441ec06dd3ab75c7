package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/testdb"
)

// server is `holdfast serve` with a folder of its own and settings as shipped,
// but for addresses, what the services set, and what a measurement names.
type server struct {
	engine *engine
	binary string
	dir    string
	listen string
	admin  string
	token  string // of the admin listener
	env    []string
	cmd    *exec.Cmd
	ended  chan struct{}
	next   int   // number of the next new owner
	theirs []int // processes of a server that was not started here
}

// pids are the server's processes; none: they are on another machine.
func (s *server) pids() []int {
	if s.cmd == nil {
		return s.theirs
	}
	return []int{s.pid()}
}

// resetPeak makes peak begin anew.
func (s *server) resetPeak() error {
	for _, pid := range s.pids() {
		if err := resetPeak(pid); err != nil {
			return err
		}
	}
	return nil
}

// peak is the most memory that the server has had since resetPeak, in bytes: the sum of
// its processes.
func (s *server) peak() (sum int64, err error) {
	for _, pid := range s.pids() {
		n, err := peak(pid)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// serve starts a server on an empty engine and waits until it is ready.
func serve(ctx context.Context, binary string, e *engine, settings []string) (*server, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{engine: e, binary: binary, dir: dir, token: rand.Text(), next: 1}
	if err = s.configure(settings); err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *server) configure(settings []string) (err error) {
	if s.listen, err = testdb.FreePort(); err != nil {
		return err
	}
	if s.admin, err = testdb.FreePort(); err != nil {
		return err
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			s.env = append(s.env, kv)
		}
	}
	s.env = append(s.env, "HOLDFAST_DATA="+s.data(), "HOLDFAST_SERVER__LISTEN="+s.listen, "HOLDFAST_SERVER__ADMIN_LISTEN="+s.admin, "HOLDFAST_SERVER__ADMIN_TOKEN="+s.token)
	s.env = append(s.env, settings...)
	return nil
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) log() string { return filepath.Join(s.dir, "log") }

// start runs the server, on what an earlier run has left, and waits until it
// is ready.
func (s *server) start(ctx context.Context) error {
	cmd := exec.Command(s.binary, "serve", "--migrate")
	cmd.Env = s.env
	if err := s.run(cmd); err != nil {
		return err
	}
	return s.until(ctx, func() error {
		_, err := s.ask(ctx, "/readyz")
		return err
	})
}

// run starts the process of the server.
func (s *server) run(cmd *exec.Cmd) error {
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own handle
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // the log says more
		close(ended)
	}()
	return nil
}

// until asks until the server is ready, often enough to measure when.
func (s *server) until(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if ready() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.ended:
			log, _ := os.ReadFile(s.log())
			return fmt.Errorf("the server ended:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("the server does not become ready: %w", ctx.Err())
		}
	}
}

// ask is a request to the admin listener.
func (s *server) ask(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// stop ends the server in good order; start brings it back.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
}

// remove ends the server and takes its folder away.
func (s *server) remove() error {
	s.stop()
	return os.RemoveAll(s.dir)
}

// newOwners makes credentials of n owners that have nothing yet.
func (s *server) newOwners(of service, n int) (all []credentials, err error) {
	for range n {
		c, err := of.owner(s, s.next)
		if err != nil {
			return nil, err
		}
		s.next++
		all = append(all, c)
	}
	return all, nil
}

// spent is what the server and its engine have worked so far.
type spent struct{ server, engine worked }

func (s *server) spent() (spent, error) {
	own, err := cpu(s.pids()...)
	theirs, other := s.engine.cpu()
	return spent{own, theirs}, errors.Join(err, other)
}

// phase is a number of operations on the server: what each took, how long all
// of them, and what was worked for them.
type phase struct {
	took               []time.Duration
	all                time.Duration
	serverCPU, engines time.Duration
}

// measured drives callers and returns what the server had to do for them. Steps
// may leave it something to do, which has been done when settle returns.
func (s *server) measured(ctx context.Context, callers int, more more, step step, settle func(context.Context, *server) error) (p phase, err error) {
	before, err := s.spent()
	if err != nil {
		return p, err
	}
	if p.took, p.all, err = drive(ctx, callers, more, step); err != nil {
		return p, err
	}
	if settle != nil {
		if err := settle(ctx, s); err != nil {
			return p, err
		}
	}
	after, err := s.spent()
	if err != nil {
		return p, err
	}
	p.serverCPU, p.engines = after.server.since(before.server), after.engine.since(before.engine)
	return p, nil
}
