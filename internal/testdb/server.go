package testdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled says that the machine has no PostgreSQL of version 15 or
// newer.
var ErrNotInstalled = errors.New("PostgreSQL 15 or newer is not installed")

// startTimeout bounds initdb and the start of a server.
const startTimeout = time.Minute

// PostgresOptions say what kind of server a test needs.
type PostgresOptions struct {
	// Durable makes the server keep what it has acknowledged, as one in
	// service does. Suites do without: nothing survives them, and fsync would
	// be most of their time.
	Durable bool

	// Settings are more of the server's, such as "max_connections=20".
	Settings []string

	// Initdb are more arguments of initdb.
	Initdb []string

	// Dir is where the server's folder is made; empty: where the system keeps
	// temporary files.
	Dir string
}

// PostgresServer is a server that this process started. It listens on a Unix
// socket in a folder of its own, so it needs no free port and nobody else
// reaches it.
//
// It ends with this process, however that ends: a small shell process holds
// the reading end of a pipe, and when the writing end closes it kills the
// server and removes the folder. A death signal (PR_SET_PDEATHSIG) would not
// do: it is sent when the thread ends that started the child, and Go ends
// threads when it likes.
type PostgresServer struct {
	opts   PostgresOptions
	bin    string
	dir    string // holds data, the socket, and the log
	attr   *syscall.SysProcAttr
	watch  *exec.Cmd
	pipe   io.WriteCloser // lines: the pid to kill, or an empty line for none
	server *exec.Cmd
	exited chan struct{} // closed when server has ended
}

// StartPostgres makes a new cluster and starts it.
func StartPostgres(opts PostgresOptions) (*PostgresServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	attr, owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(opts.Dir, "holdfast-pg-")
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{opts: opts, bin: bin, dir: dir, attr: attr}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := s.startWatch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.initdb(); err != nil {
		s.Remove()
		return nil, err
	}
	if err := s.Start(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// URL reaches the server's first database as its superuser.
func (s *PostgresServer) URL() string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(s.dir)
}

// watchScript kills the last pid that it read, and cleans up, when its input
// ends. The server may be a child of init by then, and not every init reaps,
// so the wait for its end is bounded.
const watchScript = `
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
	kill -QUIT "$pid" 2>/dev/null
	kill -CONT "$pid" 2>/dev/null # a test may have stopped it
	i=0
	while [ $i -lt 100 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; i=$((i+1)); done
fi
rm -rf "$1"`

func (s *PostgresServer) startWatch() (err error) {
	s.watch = exec.Command("/bin/sh", "-c", watchScript, "sh", s.dir)
	s.watch.SysProcAttr = s.attr
	s.watch.Dir = "/"
	if s.pipe, err = s.watch.StdinPipe(); err != nil {
		return err
	}
	return s.watch.Start()
}

// initdb makes the cluster. Its default collation is that of a language where
// ICU is there, because text that must compare as bytes would pass on a
// cluster whose default does that anyway.
func (s *PostgresServer) initdb() error {
	args := []string{"-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"}
	args = append(args, s.opts.Initdb...)
	run := func(locale ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), slices.Concat(args, locale)...)
		cmd.SysProcAttr, cmd.Dir = s.attr, "/"
		return cmd.CombinedOutput()
	}
	if _, err := run("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"); err == nil {
		return nil
	}
	if out, err := run("--locale=C"); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// Start starts the server and waits until it answers.
func (s *PostgresServer) Start() error {
	settings := []string{
		"unix_socket_directories=" + s.dir, "listen_addresses=", "max_connections=200",
	}
	if !s.opts.Durable {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	settings = append(settings, s.opts.Settings...)
	args := []string{"-D", filepath.Join(s.dir, "data")}
	for _, v := range settings {
		args = append(args, "-c", v)
	}
	log, err := os.OpenFile(s.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// A file, not a pipe: go test waits for whoever holds its own output.
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = s.attr, "/", log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.server, s.exited = cmd, exited
	go func() {
		// How it ended says nothing that the log does not.
		_ = cmd.Wait()
		close(exited)
	}()
	if _, err := fmt.Fprintln(s.pipe, cmd.Process.Pid); err != nil {
		return errors.Join(err, s.Kill())
	}
	return s.await()
}

func (s *PostgresServer) log() string { return filepath.Join(s.dir, "log") }

// await returns when the server answers, or says why it does not.
func (s *PostgresServer) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-s.exited:
			log, _ := os.ReadFile(s.log())
			return fmt.Errorf("the server ended at once:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// PID is the server's first process; 0 when it does not run.
func (s *PostgresServer) PID() int {
	if s.server == nil {
		return 0
	}
	return s.server.Process.Pid
}

// Ended is closed when the server has ended, whoever ended it.
func (s *PostgresServer) Ended() <-chan struct{} { return s.exited }

// Stop ends the server in good order; Start brings it back with its data.
func (s *PostgresServer) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash does; Start makes it recover.
func (s *PostgresServer) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *PostgresServer) end(sig os.Signal) error {
	if s.server == nil {
		return nil
	}
	if err := s.server.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	s.server = nil
	_, err := fmt.Fprintln(s.pipe)
	return err
}

// Remove ends the server and deletes its data.
func (s *PostgresServer) Remove() {
	// Whatever fails here, the watching process ends what is left.
	_ = s.Kill()
	_ = s.pipe.Close()
	_ = s.watch.Wait()
}

// unprivileged says as whom to run the server, which refuses to be root. The
// new session keeps a Ctrl-C for the tests from reaching it first.
func unprivileged() (*syscall.SysProcAttr, *syscall.Credential, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() != 0 {
		return attr, nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("PostgreSQL does not run as root, and there is nobody else: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, attr.Credential, nil
}

// findPostgres returns the folder of the newest server's programs.
func findPostgres() (string, error) {
	// Debian keeps its versions side by side and out of PATH.
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	best, found := 0, ""
	for _, dir := range dirs {
		if v := version(dir); v > best {
			best, found = v, dir
		}
	}
	if best < 15 {
		return "", ErrNotInstalled
	}
	return found, nil
}

// version is the major version of the server in a folder, 0 when there is
// none that can be set up.
func version(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	words := strings.Fields(string(out)) // postgres (PostgreSQL) 15.8 (Debian …)
	if len(words) < 3 {
		return 0
	}
	major, _, _ := strings.Cut(words[2], ".")
	n, _ := strconv.Atoi(major) // 0 for a beta, which nobody needs here
	return n
}
