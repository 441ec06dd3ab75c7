package testdb

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/ident"
)

// CitusDatabase returns a new database's URL on the TEST_CITUS_URL cluster, dropped when the test ends.
// TEST_CITUS_URL is a database on the coordinator; workers must be reachable under their names in the cluster.
func CitusDatabase(t testing.TB) string {
	t.Helper()
	leaveToCheck(t, EngineCitus)
	base := os.Getenv("TEST_CITUS_URL")
	if base == "" {
		absent(t, EngineCitus, "set TEST_CITUS_URL to a database with the Citus extension")
	}
	return citusDatabase(t, base)
}

// citusDatabase creates a database on all nodes and makes them a cluster.
func citusDatabase(t testing.TB, base string) string {
	t.Helper()
	ran(t, EngineCitus)
	name := "test_" + ident.New()
	coordinator := withDatabase(t, base, name)
	// The extension belongs to one database, so the new databases form a new cluster.
	nodes := citusNodes(t, base)
	for _, n := range nodes {
		server := withHost(t, base, n)
		execute(t, server, `CREATE DATABASE `+name+` TEMPLATE template0`)
		t.Cleanup(func() { execute(t, server, `DROP DATABASE `+name+` WITH (FORCE)`) })
		execute(t, withDatabase(t, server, name), `CREATE EXTENSION citus`)
	}
	for _, n := range nodes {
		join := `citus_add_node`
		if n.coordinates {
			join = `citus_set_coordinator_host`
		}
		joined(t, coordinator, `SELECT `+join+`($1::text, $2::int)`, n.host, n.port)
	}
	return coordinator
}

// CitusCluster is a durable cluster started by this process, coordinator first.
type CitusCluster []*PostgresServer

// OwnCitus starts a cluster with two workers for a test.
func OwnCitus(t testing.TB) CitusCluster {
	t.Helper()
	if os.Getenv("TEST_CITUS_URL") == "" {
		absent(t, EngineCitus, "set TEST_CITUS_URL to a database with the Citus extension, and install Citus here")
	}
	var c CitusCluster
	for i := range 3 {
		server := OwnPostgres(t, PostgresOptions{Durable: true, Settings: []string{
			"shared_preload_libraries=citus", "wal_level=logical", "max_prepared_transactions=200",
			"citus.shard_count=4", "citus.recover_2pc_interval=1s", "citus.enable_statistics_collection=off",
		}})
		c = append(c, server)
		execute(t, server.URL(), `CREATE EXTENSION citus`)
		join := `citus_add_node`
		if i == 0 {
			join = `citus_set_coordinator_host`
		}
		joined(t, c[0].URL(), `SELECT `+join+`($1::text, 5432)`, server.dir)
	}
	return c
}

// Database returns a new database's URL, dropped when the test ends.
func (c CitusCluster) Database(t testing.TB) string {
	t.Helper()
	return citusDatabase(t, c[0].URL())
}

// joined adds a node, with retries: Citus sometimes loses its connection while databases are created and dropped
// there.
func joined(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	for tries := 1; ; tries++ {
		err := try(url, sql, args...)
		if err == nil {
			return
		}
		if tries == 5 {
			t.Fatalf("%s: %v", sql, err)
		}
		t.Logf("%s: %v; again", sql, err)
	}
}

type citusNode struct {
	host        string
	port        int
	coordinates bool
}

// citusNodes returns the active nodes, the coordinator first.
func citusNodes(t testing.TB, base string) []citusNode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patient(5*time.Minute))
	defer cancel()
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		t.Fatalf("connect to Citus: %v", err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT nodename, nodeport, groupid = 0 FROM pg_dist_node WHERE isactive ORDER BY groupid`)
	if err != nil {
		t.Fatalf("nodes of Citus: %v", err)
	}
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n citusNode, err error) {
		return n, row.Scan(&n.host, &n.port, &n.coordinates)
	})
	if err != nil {
		t.Fatalf("nodes of Citus: %v", err)
	}
	if len(nodes) == 0 || !nodes[0].coordinates {
		t.Fatal("the cluster of TEST_CITUS_URL does not know its coordinator: call citus_set_coordinator_host there")
	}
	return nodes
}

// CitusLog is a coordinator connection that records how the servers run its statements.
type CitusLog struct {
	*pgx.Conn
	Sent []string // statements sent to another server
	Ran  []string // statements run for another server
}

// LogCitus connects to a Citus database and makes its servers log for all later connections.
func LogCitus(t testing.TB, url string) *CitusLog {
	t.Helper()
	logRemoteCommands(t, url)
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	l := &CitusLog{}
	conf.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { // the coordinator forwards the notices of other servers
		if strings.HasPrefix(n.Message, "executing the") {
			l.Ran = append(l.Ran, n.Message)
		} else {
			l.Sent = append(l.Sent, n.Message)
		}
	}
	if l.Conn, err = pgx.ConnectConfig(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func logRemoteCommands(t testing.TB, url string) {
	t.Helper()
	for _, n := range citusNodes(t, url) {
		conn := connect(t, withHost(t, url, n))
		command(t, conn, `SET citus.enable_ddl_propagation = off`)
		command(t, conn, `ALTER DATABASE `+pgx.Identifier{conn.Config().Database}.Sanitize()+` SET citus.log_remote_commands = on`)
	}
}

func (l *CitusLog) Reset() { l.Sent, l.Ran = nil, nil }

func withHost(t testing.TB, base string, n citusNode) string {
	t.Helper()
	if strings.HasPrefix(n.host, "/") {
		return WithParameter(t, base, "host", n.host)
	}
	u := parse(t, base)
	u.Host = net.JoinHostPort(n.host, strconv.Itoa(n.port))
	return u.String()
}
