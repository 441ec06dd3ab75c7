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

// server is `holdfast serve` with its own folder and default settings, except addresses, services, and settings that
// the measurement needs.
type server struct {
	engine *engine
	binary string
	dir    string
	listen string
	admin  string
	token  string
	env    []string
	cmd    *exec.Cmd
	ended  chan struct{}
	next   int
	theirs []int // processes that were started elsewhere
	access *credentials
}

func (s *server) pids() []int {
	if s.cmd == nil {
		return s.theirs
	}
	return []int{s.pid()}
}

func (s *server) resetPeak() error {
	for _, pid := range s.pids() {
		if err := resetPeak(pid); err != nil {
			return err
		}
	}
	return nil
}

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
	s.env = append(s.env, "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_DATA="+s.data(), "HOLDFAST_SERVER__LISTEN="+s.listen, "HOLDFAST_SERVER__ADMIN_LISTEN="+s.admin, "HOLDFAST_SERVER__ADMIN_TOKEN="+s.token)
	s.env = append(s.env, settings...)
	return nil
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) log() string { return filepath.Join(s.dir, "log") }

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

func (s *server) run(cmd *exec.Cmd) error {
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

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
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		}
	}
}

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

func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
}

func (s *server) remove() error {
	s.stop()
	return os.RemoveAll(s.dir)
}

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

func (s *server) filled(ctx context.Context, of service, n int) ([]credentials, error) {
	owners, err := s.newOwners(of, n)
	if err != nil {
		return nil, err
	}
	return owners, of.fill(ctx, s.engine, owners)
}

type spent struct{ server, engine worked }

func (s *server) spent() (spent, error) {
	own, err := cpu(s.pids()...)
	theirs, other := s.engine.cpu()
	return spent{own, theirs}, errors.Join(err, other)
}

type phase struct {
	took               []time.Duration
	all                time.Duration
	serverCPU, engines time.Duration
}

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
