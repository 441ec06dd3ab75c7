package testdb

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestServerEndsWithItsProcess kills a process that has started a server, and
// waits until the server's folder is gone.
func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv("TESTDB_CHILD") != "" {
		child(t)
		return
	}
	t.Parallel()
	if _, err := findPostgres(); errors.Is(err, ErrNotInstalled) {
		absent(t, EnginePostgres, remedyPostgres)
	}
	ran(t, EnginePostgres)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), "TESTDB_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(line)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is still there", dir)
		}
	}
}

// child starts a server, says where, and waits to be killed.
func child(t *testing.T) {
	s, err := StartPostgres(PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(os.Stdout, s.dir+"\n"); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done()
}

func TestDurableServerKeepsData(t *testing.T) {
	t.Parallel()
	s := DurablePostgres(t)
	one := func(sql string) (v string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := one(`SHOW fsync`); v != "on" {
		t.Errorf("fsync is %s", v)
	}
	execute(t, s.URL(), `CREATE TABLE kept AS SELECT 'here' AS word`)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if v := one(`SELECT word FROM kept`); v != "here" {
		t.Errorf("found %q", v)
	}
}

func TestPostgresDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	var fresh string
	t.Run("use", func(t *testing.T) {
		fresh = PostgresDatabase(t)
		execute(t, fresh, `CREATE TABLE x ()`)
	})
	if conn, err := pgx.Connect(t.Context(), fresh); err == nil {
		t.Error("the database is still there")
		_ = conn.Close(t.Context())
	}
}
