package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload"
)

// server is `holdfast serve` with its own folder and default settings, except addresses, services, and settings that
// the measurement needs. It may also be a peer, which has no binary or no process of this machine.
type server struct {
	service // of its clients; may be nil

	owners  []credentials // from fillAll
	engine  *engine
	binary  string
	dir     string
	listen  string
	admin   string
	buckets string // address
	token   string
	env     []string  // of its process and commands
	cmd     *exec.Cmd // of the running process; nil if none of ours runs
	// interrupt asks the process to end, and ended is closed when it did.
	interrupt context.CancelFunc
	ended     chan struct{}
	next      int   // the next owner's number
	theirs    []int // processes that were started elsewhere
}

// onServer starts a server for the time that fn runs. settings are environment variables that override the defaults.
func onServer(ctx context.Context, binary string, of service, e *engine, settings []string, fn func(*server) error) error {
	if e.postgres != nil {
		// The previous server's data folder was deleted with its bodies.
		_, err := ask(ctx, e.postgres.URL(), `DO $$ BEGIN IF to_regclass('manta_bucket_node') IS NOT NULL THEN DELETE FROM manta_bucket_node; END IF; END $$`)
		if err != nil {
			return err
		}
	}
	s, err := newServer(of, e)
	if err != nil {
		return err
	}
	s.binary, s.token = binary, rand.Text()
	for _, address := range []*string{&s.admin, &s.buckets} {
		if *address, err = testdb.FreePort(); err != nil {
			return errors.Join(err, s.remove())
		}
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			s.env = append(s.env, kv)
		}
	}
	s.env = append(s.env, "HOLDFAST_DATA="+s.data(), "HOLDFAST_SERVER__LISTEN="+s.listen, "HOLDFAST_SERVER__ADMIN_LISTEN="+s.admin,
		"HOLDFAST_SERVER__ADMIN_TOKEN="+s.token, "HOLDFAST_BUCKETS__LISTEN="+s.buckets)
	s.env = append(append(s.env, e.settings()...), settings...)
	if err = s.start(ctx); err == nil {
		err = fn(s)
	}
	return errors.Join(err, s.remove())
}

// newServer returns a server with a folder and an address, which is not started.
func newServer(of service, e *engine) (*server, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{service: of, engine: e, dir: dir, next: 1}
	s.listen, err = testdb.FreePort()
	return s, errors.Join(err, os.Mkdir(s.data(), 0o700))
}

func (s *server) data() string            { return filepath.Join(s.dir, "data") }
func (s *server) file(name string) string { return filepath.Join(s.data(), name) }
func (s *server) log() string             { return filepath.Join(s.dir, "log") }
func (s *server) pid() int                { return s.cmd.Process.Pid }

// start starts Holdfast, and waits until it is ready. Only one process of the server runs at a time.
func (s *server) start(ctx context.Context) error {
	ready := func() error {
		_, err := s.ask(ctx, "/readyz")
		return err
	}
	return s.run(ctx, ready, s.binary, "serve", "--migrate")
}

// run starts a program, and waits until it is ready. A program that does not end within 30 s of stop is killed.
func (s *server) run(ctx context.Context, ready func() error, program string, args ...string) error {
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	until, interrupt := context.WithCancel(ctx)
	cmd := exec.CommandContext(until, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Start(); err != nil {
		interrupt()
		return err
	}
	ended := make(chan struct{})
	s.cmd, s.interrupt, s.ended = cmd, interrupt, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return s.until(ctx, time.Millisecond, ready)
}

// until repeats ready until it returns no error, for at most two minutes or the server's life.
func (s *server) until(ctx context.Context, every time.Duration, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.ended:
			log, _ := os.ReadFile(s.log())
			return fmt.Errorf("the server ended:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("timeout: %w", err)
		}
	}
}

// ask requests a page of the admin listener.
func (s *server) ask(ctx context.Context, path string) (string, error) {
	a, err := workload.Send(ctx, nil, http.MethodGet, "http://"+s.admin+path, "", "Authorization: Bearer "+s.token)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%s: %d %.200s", path, a.Status, a.Body)
	}
	return a.Body, err
}

// command runs a subcommand with the server's settings, and returns its output.
func (s *server) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	var output, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &output, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(output.String()), nil
}

// stop ends the process as its service manager would, and waits for it.
func (s *server) stop() {
	if s.cmd != nil {
		s.interrupt()
		<-s.ended
		s.cmd = nil
	}
}

// remove stops the server, and deletes its folder.
func (s *server) remove() error {
	s.stop()
	return os.RemoveAll(s.dir)
}

// newOwners returns owners that no measurement has used on this server.
func (s *server) newOwners(n int) (all []credentials, err error) {
	for range n {
		c, err := s.owner(s, s.next)
		if err != nil {
			return nil, err
		}
		s.next++
		all = append(all, c)
	}
	return all, nil
}

// fillAll makes n new owners with the records that the operations use.
func (s *server) fillAll(ctx context.Context, n int) (err error) {
	if s.owners, err = s.newOwners(n); err == nil {
		err = s.fill(ctx, s, s.owners)
	}
	if err != nil {
		return fmt.Errorf("fill the server: %w", err)
	}
	return nil
}

// pids returns the processes whose CPU time and memory count; none if they are unknown.
func (s *server) pids() []int {
	if s.cmd == nil {
		return s.theirs
	}
	return []int{s.pid()}
}

// resetPeak makes peak start from the present memory.
func (s *server) resetPeak() error {
	for _, pid := range s.pids() {
		if err := os.WriteFile(proc(pid, "clear_refs"), []byte("5"), 0); err != nil {
			return err
		}
	}
	return nil
}

// peak returns the largest resident memory since resetPeak, in bytes, as the sum over the processes.
func (s *server) peak() (sum int64, err error) {
	for _, pid := range s.pids() {
		n, err := memory(pid, "VmHWM")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// worked returns the CPU time of the server and of its engine since their processes started.
func (s *server) worked() (server, engine worked, err error) {
	if server, err = cpu(s.pids()...); err == nil {
		engine, err = s.engine.cpu()
	}
	return server, engine, err
}

// measured drives callers, and adds the CPU time that the server and its engine spent until settle returned; settle
// may be nil.
func (s *server) measured(ctx context.Context, callers int, more while, step step, settle func(context.Context, *server) error) (phase, error) {
	server, engine, err := s.worked()
	if err != nil {
		return phase{}, err
	}
	p, err := drive(ctx, callers, more, step)
	if err == nil && settle != nil {
		err = settle(ctx, s)
	}
	if err != nil {
		return p, err
	}
	serverAfter, engineAfter, err := s.worked()
	p.cpu, p.engine = serverAfter.since(server), engineAfter.since(engine)
	return p, err
}

// profile writes a CPU profile of the server under a load into the folder -profiles. The load lasts 1 s longer than the
// profile. It is not measured, because profiling costs CPU time.
func (s *server) profile(ctx context.Context, o *options, name string, load func(while) error) error {
	seconds := int(math.Ceil(o.window.Seconds()))
	done := make(chan error, 1)
	go func() { done <- load(lasting(time.Duration(seconds+1) * time.Second)) }()
	profile, err := s.ask(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
	if err = errors.Join(err, <-done); err != nil {
		return err
	}
	name = strings.NewReplacer(": ", "-", " ", "-", "/", "-", ",", "").Replace(name) + ".pprof"
	return os.WriteFile(filepath.Join(o.profiles, name), []byte(profile), 0o600)
}
