package testdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled says that the machine has no PostgreSQL of version 15 or
// newer.
var ErrNotInstalled = errors.New("PostgreSQL 15 or newer is not installed")

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

// PostgresServer is a server that this process started, and that ends with it.
// It listens on a Unix socket in a folder of its own, so it needs no free port
// and nobody else reaches it. What it has acknowledged is there after Start,
// if it is durable.
type PostgresServer struct {
	daemon // its folder holds data and the socket, too
	opts   PostgresOptions
	bin    string
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
	s := &PostgresServer{opts: opts, bin: bin}
	s.daemon = daemon{dir: dir, attr: attr, stop: syscall.SIGINT, kill: syscall.SIGQUIT}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := s.guard(); err != nil {
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
	if err := s.run(filepath.Join(s.bin, "postgres"), args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.await(func() error {
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
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
