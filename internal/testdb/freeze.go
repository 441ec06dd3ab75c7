package testdb

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Freeze stops the server's processes as if its machine hung: it accepts connections and answers nothing.
func (s *PostgresServer) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	pids := []int{s.PID()}
	signal := func(sig syscall.Signal) error {
		var all error
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				all = errors.Join(all, fmt.Errorf("process %d of PostgreSQL: %w", pid, err))
			}
		}
		return all
	}
	thaw = func() {
		if err := signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(thaw)                                 // a stopped server cannot end
	if err := signal(syscall.SIGSTOP); err != nil { // it starts no other process
		t.Fatal(err)
	}
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()`)
	if err != nil {
		t.Fatal(err)
	}
	others, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	pids = append(pids, others...)
	if err := signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return thaw
}

// Worker returns the worker with this folder.
func (c CitusCluster) Worker(t testing.TB, name string) *PostgresServer {
	t.Helper()
	for _, s := range c[1:] {
		if s.dir == name {
			return s
		}
	}
	t.Fatalf("the cluster has no worker %s", name)
	return nil
}
