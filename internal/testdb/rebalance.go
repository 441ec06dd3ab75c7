package testdb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// rebalancing limits the time to move a few small shards, and the wait for another test that moves shards.
const rebalancing = 10 * time.Minute

// FewShards gives an empty Citus database's future tables few shards, so that moving them takes seconds.
func FewShards(t testing.TB, url string) {
	t.Helper()
	conn := connect(t, url)
	command(t, conn, `ALTER DATABASE `+pgx.Identifier{conn.Config().Database}.Sanitize()+` SET citus.shard_count = 4`)
}

// Rebalance drains a worker and rebalances the cluster with the statements in docs/postgresql.md, while goroutines
// call write with increasing numbers.
func Rebalance(t testing.TB, url string, write func(ctx context.Context, n int) error) {
	t.Helper()
	conn := connect(t, url)
	worker := strings.SplitN(one(t, conn, `SELECT nodename || ' ' || nodeport FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid LIMIT 1`), " ", 2)
	if workers := one(t, conn, `SELECT count(*)::text FROM pg_dist_node WHERE shouldhaveshards`); workers == "1" {
		t.Skip("needs a Citus cluster with two workers or more: the last worker cannot be drained")
	}
	moveAlone(t, os.Getenv("TEST_CITUS_URL"))
	placements := func() string {
		return one(t, conn, `SELECT count(*)::text FROM citus_shards WHERE citus_table_type = 'distributed' AND nodename = $1 AND nodeport = $2::int`, worker[0], worker[1])
	}
	if placements() == "0" {
		t.Fatal("the worker has no shards before")
	}
	stop := writing(t, write)
	guided(t, conn, worker, `SELECT citus_drain_node('worker1.example.org', 5432)`)
	if n := placements(); n != "0" {
		t.Errorf("the drained worker has %s shards", n)
	}
	guided(t, conn, worker, `SELECT citus_set_node_property('worker1.example.org', 5432, 'shouldhaveshards', true)`)
	guided(t, conn, worker, `SELECT citus_rebalance_start()`)
	guided(t, conn, worker, `SELECT citus_rebalance_wait()`)
	if placements() == "0" {
		t.Error("the worker has no shards after")
	}
	if n := stop(); n < 10 {
		t.Errorf("only %d concurrent writes", n)
	}
}

// moveAlone keeps tests from moving shards concurrently: the slots and roles that Citus creates have the same names
// in all of a server's databases.
func moveAlone(t testing.TB, base string) {
	t.Helper()
	command(t, connect(t, base), `SELECT pg_advisory_lock(hashtext('rebalance'))`)
}

func writing(t testing.TB, write func(ctx context.Context, n int) error) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var mu sync.Mutex
	n := 0
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				i := next()
				if err := write(context.WithoutCancel(ctx), i); err != nil {
					t.Errorf("write %d: %v", i, err)
					return
				}
			}
		})
	}
	return func() int {
		cancel()
		group.Wait()
		return n
	}
}

func guided(t testing.TB, conn *pgx.Conn, worker []string, sql string) {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "postgresql.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), sql+";") {
		t.Fatalf("docs/postgresql.md does not have the statement %s", sql)
	}
	command(t, conn, strings.ReplaceAll(sql, `'worker1.example.org', 5432`, fmt.Sprintf("'%s', %s", worker[0], worker[1])))
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func command(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rebalancing)
	defer cancel()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one(t testing.TB, conn *pgx.Conn, sql string, args ...any) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rebalancing)
	defer cancel()
	if err := conn.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
