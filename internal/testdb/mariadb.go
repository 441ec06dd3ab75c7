package testdb

import (
	"context"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"holdfast/internal/ident"
)

var remedyMariaDB = Install("mariadb") + ", or set TEST_MARIADB_URL"

// ErrNoMariaDB means that MariaDB is not installed.
var ErrNoMariaDB = errors.New("MariaDB is not installed")

var processMariaDB = sync.OnceValues(StartMariaDB)

// MariaDBDatabase returns a new database's URL for a user with all rights, dropped when the test ends.
func MariaDBDatabase(t testing.TB) string {
	t.Helper()
	needsServer(t, EngineMariaDB)
	base := os.Getenv("TEST_MARIADB_URL")
	if base == "" {
		server, err := processMariaDB()
		if errors.Is(err, ErrNoMariaDB) {
			absent(t, EngineMariaDB, remedyMariaDB)
		}
		if err != nil {
			t.Fatalf("MariaDB is installed but does not start: %v", err)
		}
		base = server.URL()
	}
	ran(t, EngineMariaDB)
	name := "test_" + ident.New()
	MariaDBScript(t, base, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() { MariaDBScript(t, base, "DROP DATABASE "+name) })
	return withDatabase(t, base, name)
}

// MariaDBScript runs statements separated by semicolons.
func MariaDBScript(t testing.TB, address, script string) {
	t.Helper()
	if err := runMariaDB(address, script); err != nil {
		t.Fatalf("MariaDB: %v", err)
	}
}

func runMariaDB(address, script string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = u.User.Username(), "unix", u.Query().Get("unix_socket")
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName, cfg.MultiStatements, cfg.Logger = strings.Trim(u.Path, "/"), true, noLog{}
	if cfg.Addr == "" {
		cfg.Net, cfg.Addr = "tcp", u.Host
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	// The test's context is canceled before cleanups.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := connector.Connect(ctx)
	if err != nil {
		return err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, script, nil)
	return errors.Join(err, conn.Close())
}

type noLog struct{}

func (noLog) Print(...any) {}

// MariaDBServer ends with this process. It listens on a Unix socket in its own folder and is not durable.
type MariaDBServer struct {
	daemon
	program string
}

// StartMariaDB creates the system tables and starts a server.
func StartMariaDB() (*MariaDBServer, error) {
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return nil, ErrNoMariaDB
	}
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil {
			return nil, ErrNoMariaDB
		}
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	dir, err := os.MkdirTemp(memoryDir(), "holdfast-mariadb-")
	if err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // MariaDB does not run as root
		if err := ownedByMySQL(dir, attr); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	s := &MariaDBServer{program: program, daemon: daemon{dir: dir, attr: attr, stop: syscall.SIGTERM, kill: syscall.SIGKILL}}
	if err := s.guard(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := writeCertificate(dir); err != nil {
		s.Remove()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=4M")
	cmd.SysProcAttr, cmd.Dir = attr, "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Remove()
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	if err := s.Start(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func ownedByMySQL(dir string, attr *syscall.SysProcAttr) error {
	u, err := user.Lookup("mysql")
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(dir, int(uid), int(gid))
}

// Start starts a stopped server on its data.
func (s *MariaDBServer) Start() error {
	if err := s.run(s.program, "--no-defaults", "--datadir="+filepath.Join(s.dir, "data"), "--tmpdir="+s.dir,
		"--socket="+s.socket(), "--pid-file="+filepath.Join(s.dir, "pid"), "--skip-networking",
		"--ssl-cert="+filepath.Join(s.dir, certFile), "--ssl-key="+filepath.Join(s.dir, keyFile),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M"); err != nil {
		return err
	}
	return s.await(func() error { return runMariaDB(s.URL(), "SELECT 1") })
}

func (s *MariaDBServer) socket() string { return filepath.Join(s.dir, "s") }

func (s *MariaDBServer) URL() string {
	return "mysql://root@/?unix_socket=" + url.QueryEscape(s.socket())
}

// MariaDBHost is the name in the server's certificate.
const MariaDBHost = "mariadb.example.org"

// These are the server's certificate and key, in its folder.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// MariaDBCertificate returns the file with the self-signed certificate of MariaDBDatabase's server.
func MariaDBCertificate(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(u.Query().Get("unix_socket")), certFile)
	if _, err := os.Stat(path); err != nil {
		t.Skip("unset TEST_MARIADB_URL: the certificate is only known of a server that these tests have started")
	}
	return path
}

func writeCertificate(dir string) error {
	cert, key, err := SelfSigned(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), DNSNames: []string{MariaDBHost}, IsCA: true, BasicConstraintsValid: true,
	})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, certFile), cert, 0o644), os.WriteFile(filepath.Join(dir, keyFile), key, 0o644))
}
