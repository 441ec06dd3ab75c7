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

// ErrNotInstalled means that PostgreSQL 15 or newer is not installed.
var ErrNotInstalled = errors.New("PostgreSQL 15 or newer is not installed")

type PostgresOptions struct {
	// Durable makes acknowledged writes survive a crash, as in production. Suites do not need it, and fsync would
	// take most of their time.
	Durable bool

	Settings []string

	Initdb []string

	// Dir is the parent folder. "" means the temporary folder, or a folder in memory if the server is not durable and
	// there is enough memory.
	Dir string
}

// PostgresServer ends with this process. It listens on a Unix socket in its own folder.
type PostgresServer struct {
	daemon
	opts PostgresOptions
	bin  string
}

// StartPostgres creates a database cluster and starts its server.
func StartPostgres(opts PostgresOptions) (*PostgresServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	attr, owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if opts.Dir == "" && !opts.Durable {
		opts.Dir = memoryDir()
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

// memoryDir returns a folder in memory, or "" if there is no space for the databases of all tests. A new database is
// hundreds of files, which dominate many tests on a disk.
func memoryDir() string {
	const dir, need = "/dev/shm", 4 << 30
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Bavail*uint64(s.Bsize) < need {
		return ""
	}
	return dir
}

func (s *PostgresServer) URL() string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(s.dir)
}

// Host returns the socket's folder, also the server's name as a Citus node.
func (s *PostgresServer) Host() string { return s.dir }

var errSlowStart = fmt.Errorf("no end in %s: the machine is too busy", startTimeout)

// initdb creates the database cluster. By default it uses an ICU language collation, because a byte order would hide
// a missing COLLATE "C".
func (s *PostgresServer) initdb() error {
	args := []string{"-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"}
	args = append(args, s.opts.Initdb...)
	run := func(locale ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), slices.Concat(args, locale)...)
		cmd.SysProcAttr, cmd.Dir = s.attr, "/"
		out, err := cmd.CombinedOutput()
		if err != nil && ctx.Err() != nil {
			err = errSlowStart
		}
		return out, err
	}
	out, err := run("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
	if err != nil && !errors.Is(err, errSlowStart) {
		out, err = run("--locale=C")
	}
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

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

// unprivileged returns attributes for another user, because PostgreSQL does not run as root. A separate session keeps
// Ctrl-C away from the server.
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
		return nil, nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user nobody: %w", err)
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

func findPostgres() (string, error) {
	// Debian installs several versions, none of them in PATH.
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
	n, _ := strconv.Atoi(major)
	return n
}
