package testdb

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var archiving = []string{"wal_level=replica", "archive_mode=on", "archive_command=mkdir -p ../archive && cp %p ../archive/%f"}

// ArchivingPostgres starts a durable server for a test.
func ArchivingPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	return OwnPostgres(t, PostgresOptions{Durable: true, Settings: archiving})
}

var errRecovering = errors.New("the server recovers")

func (s *PostgresServer) BackUp(t testing.TB) {
	t.Helper()
	s.program(t, filepath.Join(s.bin, "pg_basebackup"), "-h", s.dir, "-U", "postgres", "-D", filepath.Join(s.dir, "base"), "-X", "none", "--checkpoint=fast", "--no-sync")
}

// Recover stops the server and restarts it from the base backup and the archived WAL up to the time at. At least one
// later transaction must have been committed.
func (s *PostgresServer) Recover(t testing.TB, at time.Time) {
	t.Helper()
	if err := s.Stop(); err != nil { // archives the last segment
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "base"), filepath.Join(s.dir, "data")); err != nil {
		t.Fatal(err)
	}
	s.program(t, "/bin/sh", "-c", `cd "$1" && touch recovery.signal && echo "restore_command = 'cp ../archive/%f %p'
recovery_target_time = '$2'
recovery_target_action = 'promote'" >>postgresql.auto.conf`, "sh", filepath.Join(s.dir, "data"), at.UTC().Format("2006-01-02 15:04:05.999999-07"))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	recovering := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var yes bool
		if err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&yes); err == nil && yes {
			return errRecovering
		}
		return err
	}
	if err := s.await(recovering); err != nil {
		t.Fatal(err)
	}
}

func (s *PostgresServer) program(t testing.TB, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr, cmd.Dir = s.attr, "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}
