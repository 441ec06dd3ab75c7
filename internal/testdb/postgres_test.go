package testdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestServersEndWithTheirProcess(t *testing.T) {
	if os.Getenv("TESTDB_CHILD") != "" {
		child(t)
		return
	}
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		needsServer(t, EnginePostgres)
		if _, err := findPostgres(); errors.Is(err, ErrNotInstalled) {
			absent(t, EnginePostgres, remedyPostgres)
		}
		endsWithItsProcess(t, EnginePostgres)
	})
	t.Run("spanner", func(t *testing.T) {
		t.Parallel()
		needsServer(t, EngineSpanner)
		if _, err := findEmulator(); errors.Is(err, ErrNoEmulator) {
			absent(t, EngineSpanner, remedySpanner)
		}
		endsWithItsProcess(t, EngineSpanner)
	})
}

func endsWithItsProcess(t *testing.T, engine string) {
	t.Helper()
	ran(t, engine)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheirProcess$")
	cmd.Env = append(os.Environ(), "TESTDB_CHILD="+engine)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir, network, address string
	if _, err := fmt.Fscan(out, &dir, &network, &address); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error says that it was killed
	ctx, cancel := context.WithTimeout(t.Context(), Patient(30*time.Second))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s still exists", dir)
		}
	}
	if conn, err := net.Dial(network, address); err == nil {
		t.Errorf("%s still has a listener", address)
		_ = conn.Close()
	}
}

func child(t *testing.T) {
	var dir, network, address string
	switch os.Getenv("TESTDB_CHILD") {
	case EnginePostgres:
		s, err := StartPostgres(PostgresOptions{})
		if err != nil {
			t.Fatal(err)
		}
		dir, network, address = s.dir, "unix", filepath.Join(s.dir, ".s.PGSQL.5432")
	case EngineSpanner:
		s, err := StartSpanner()
		if err != nil {
			t.Fatal(err)
		}
		dir, network, address = s.dir, "tcp", s.Host()
	}
	if _, err := fmt.Fprintln(os.Stdout, dir, network, address); err != nil {
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
		t.Error("the database still exists")
		_ = conn.Close(t.Context())
	}
}
