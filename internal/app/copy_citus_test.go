package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/ident"
	"holdfast/internal/testdb"
)

// tenants are writers for different tenants, so that all Citus workers contain data.
func tenants(n int) (all []*copyWriter) {
	for i := range n {
		all = append(all, &copyWriter{owner: ext.Owner{
			Tenant: ext.TenantID(fmt.Sprintf("a0000000-0000-4000-8000-%012d", i)), Install: "b0000000-0000-4000-8000-000000000001",
		}})
	}
	return all
}

// TestCopyFromMovingShards checks a copy while shards move. The copy starts again if a worker was removed with its
// log.
func TestCopyFromMovingShards(t *testing.T) {
	t.Parallel()
	source, target := testdb.CitusDatabase(t), sqliteURL(t)
	testdb.FewShards(t, source)
	c := newCopy(t, "extstorage", source, target)
	c.Report = func(line string) {
		if strings.Contains(line, "was not removed") {
			t.Error(line)
		}
	}
	writers, store := tenants(8), extHarness(t, source).Store
	write := func() {
		t.Helper()
		for _, w := range writers {
			if err := w.write(t.Context(), store); err != nil {
				t.Fatal(err)
			}
		}
	}
	// at calls one function at each point of the copy, beginning with the point first, and writes after each.
	at := func(first string, fns ...func()) {
		c.BeforeStep = func(point string) error {
			if len(fns) == 0 || first != "" && point != first {
				return nil
			}
			fns[0]()
			first, fns = "", fns[1:]
			write()
			return nil
		}
	}
	write()
	const last = ` FROM (SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY nodeid DESC LIMIT 1) AS last`
	at("pass",
		func() {},
		func() { execute(t, source, `SELECT citus_drain_node(nodename, nodeport, 'block_writes')`+last) },
		func() {
			execute(t, source, `CREATE TABLE removed AS SELECT nodename, nodeport`+last+`; SELECT citus_remove_node(nodename, nodeport) FROM removed`)
		},
	)
	if err := c.Run(t.Context()); !errors.Is(err, rows.ErrLapsed) || !strings.Contains(err.Error(), "workers of Citus") {
		t.Fatalf("a copy without the log of a worker: %v", err)
	}
	execute(t, source, `SELECT citus_add_node(nodename, nodeport) FROM removed`)
	execute(t, source, `SELECT replicate_reference_tables('block_writes')`) // Citus refuses this in the transaction that adds a node
	at("span",
		func() {},
		func() { execute(t, source, `SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')`) },
		func() {},
	)
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, c)
	copied := extHarness(t, target).Store
	for _, w := range writers {
		w.check(t, copied)
		if err := w.write(t.Context(), store); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("a write to the source: %v", err)
		}
	}
}

// TestLeaseOfWorkers checks that each Citus worker refuses writes until its own lease ends, and that an expired lease
// on a worker is not extended.
func TestLeaseOfWorkers(t *testing.T) {
	t.Parallel()
	source := testdb.CitusDatabase(t)
	testdb.FewShards(t, source)
	one := openOne(t, "extstorage", source)
	db, writers, store := one.Database.Rows(nil), tenants(8), extHarness(t, source).Store
	refused := func() (n int) {
		t.Helper()
		for _, w := range writers {
			err := w.write(t.Context(), store)
			if errcode.Is(err, errcode.Unavailable) {
				n++
			} else if err != nil {
				t.Error(err)
			}
		}
		return n
	}
	if err := db.Close(t.Context(), "extstorage", "a test", time.Hour, one.Service.Tables); err != nil {
		t.Fatal(err)
	}
	if n := refused(); n != len(writers) {
		t.Errorf("%d of %d tenants are refused", n, len(writers))
	}
	if err := db.Prolong(t.Context(), "extstorage", "a test", 2*time.Hour); err != nil {
		t.Error(err)
	}
	if hold, err := db.ReadOnly(t.Context(), "extstorage"); err != nil || hold.Holder != "a test" || time.Until(hold.Until) < time.Hour {
		t.Errorf("read-only: %+v, %v", hold, err)
	}
	execute(t, source, `SELECT run_command_on_workers('UPDATE read_only SET until = clock_timestamp()
		WHERE (SELECT groupid FROM pg_dist_local_group) = (SELECT max(groupid) FROM pg_dist_node)')`)
	if n := refused(); n == 0 || n == len(writers) {
		t.Errorf("%d of %d tenants are refused after the end of a lease", n, len(writers))
	}
	if err := db.Prolong(t.Context(), "extstorage", "a test", 0); !errors.Is(err, rows.ErrLapsed) {
		t.Errorf("a lease that has ended on a worker is prolonged: %v", err)
	}
	if err := db.Reopen(t.Context(), "extstorage", one.Service.Tables); err != nil {
		t.Fatal(err)
	}
	if n := refused(); n != 0 {
		t.Errorf("%d tenants are refused after Reopen", n)
	}
}

// TestCloseWaitsForWriters checks that a service on Citus becomes read-only only after the writing transactions ended
// on all nodes.
func TestCloseWaitsForWriters(t *testing.T) {
	t.Parallel()
	source := testdb.CitusDatabase(t)
	testdb.FewShards(t, source)
	one := openOne(t, "extstorage", source)
	db, w := one.Database.Rows(nil), tenants(1)[0]
	worker, err := pgx.ParseConfig(source)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *pgx.Conn {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), worker)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	if err := connect().QueryRow(t.Context(), `SELECT nodename, nodeport FROM citus_shards
		WHERE shardid = get_shard_id_for_distribution_column('ext_storage_namespaces', $1::text)`, w.owner.Tenant).Scan(&worker.Host, &worker.Port); err != nil {
		t.Fatal(err)
	}
	writer, watcher := connect(), connect()
	write := func(statement string) error {
		_, err := writer.Exec(t.Context(), strings.ReplaceAll(statement, "TENANT", string(w.owner.Tenant)))
		return err
	}
	if err := errors.Join(write(`BEGIN`), write(`INSERT INTO ext_storage_namespaces VALUES ('TENANT', 'TENANT', 'a', 0)`)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close(t.Context(), "extstorage", "a test", time.Hour, one.Service.Tables) }()
	for waits := false; !waits; {
		select {
		case err := <-closed:
			t.Fatalf("read-only began before a transaction that has written ended: %v", err)
		default:
		}
		if err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE datname = current_database() AND NOT granted AND relation::regclass::text LIKE 'ext_storage_namespaces%')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(`COMMIT`); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := write(`UPDATE ext_storage_namespaces SET keys_count = 1 WHERE tenant_id = 'TENANT'`); !pgdb.IsState(err, "HF503") {
		t.Errorf("a write after Close: %v", err)
	}
}

// TestCopySettles checks that a copy compares only after no Citus worker hides rows in its own prepared transactions.
// Transactions by other programs do not matter.
func TestCopySettles(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := openOne(t, "extstorage", url).Database.Rows(nil)
	worker, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	execute := func(statements ...string) {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), worker)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statements {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Error(err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	err = conn.QueryRow(t.Context(), `SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0`).Scan(&worker.Host, &worker.Port)
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	id := ident.New()
	ours, other := "citus_9999_"+id, "other_"+id // Citus recovery does not touch other groups' transactions
	execute(`BEGIN`, `CREATE TABLE other ()`, `PREPARE TRANSACTION '`+other+`'`)
	if err := db.Settle(t.Context()); err != nil {
		t.Errorf("with a transaction of another program: %v", err)
	}
	execute(`BEGIN`, `CREATE TABLE ours ()`, `PREPARE TRANSACTION '`+ours+`'`)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := db.Settle(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a transaction of Citus: %v", err)
	}
	execute(`ROLLBACK PREPARED '`+ours+`'`, `ROLLBACK PREPARED '`+other+`'`)
	if err := db.Settle(t.Context()); err != nil {
		t.Errorf("after the end of the transactions: %v", err)
	}
}
