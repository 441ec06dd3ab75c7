package fault

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

type outage struct {
	*harness.Harness
	url   string // always reaches the database
	admin *pgx.Conn
}

// newOutage starts a server that connects to its database at the address at, possibly through a network that fails.
func newOutage(t *testing.T, url, at string, vars ...string) *outage {
	t.Helper()
	vars = append(append(vars, "HOLDFAST_LOG__ACCESS=false"), servicesOn(at)...)
	vars = append(vars, harness.Timeouts(services(), harness.DbPatience)...)
	o := &outage{newHarness(t, t.TempDir(), vars...), url, nil}
	// Connection timeout, statement timeout, a second to cancel the statement, and delays on a busy machine.
	o.Bound = 2*harness.DbPatience + time.Second + testdb.Patient(5*time.Second)
	o.Server = o.Serve()
	o.connect()
	return o
}

func (o *outage) connect() {
	o.T.Helper()
	ctx, cancel := context.WithTimeout(o.T.Context(), harness.Bound)
	defer cancel()
	var err error
	o.admin, err = pgx.Connect(ctx, o.url)
	harness.Must(o.T, err)
	conn := o.admin
	o.T.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database may be stopped
}

func (o *outage) execute(sql string, args ...any) {
	o.T.Helper()
	ctx, cancel := context.WithTimeout(o.T.Context(), harness.Bound)
	defer cancel()
	_, err := o.admin.Exec(ctx, sql, args...)
	harness.Must(o.T, err)
}

// recovered waits until the server recovers and the database finishes all statements, including statements on closed
// connections. Then only the pools' idle connections may remain. The server may count more connections than the
// database, because it notices a closed connection only when it uses it.
func (o *outage) recovered() {
	o.T.Helper()
	o.Server.Await("/readyz", http.StatusOK)
	ctx, cancel := context.WithTimeout(o.T.Context(), harness.Bound)
	defer cancel()
	used := false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var open, busy int
		harness.Must(o.T, o.admin.QueryRow(ctx, `
			SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'holdfast%'`).Scan(&open, &busy))
		pooled := o.pooled(o.Server)
		if o.Second != nil {
			pooled += o.pooled(o.Second)
		}
		switch {
		case busy > 0:
		case open == pooled, open < pooled && used:
			return
		case open < pooled:
			o.useAll()
			used = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			o.T.Fatalf("open connections: %d in the database (%d busy), %d in the server", open, busy, pooled)
		}
	}
}

// useAll sends a concurrent request per writer, so that the server detects closed connections.
func (o *outage) useAll() {
	o.T.Helper()
	var asking sync.WaitGroup
	for _, w := range o.Workloads {
		for _, read := range w.Reads(o.Harness) {
			asking.Go(func() {
				if a, err := read(); err != nil || a.Status != http.StatusOK {
					o.T.Errorf("after the outage: %d %s %v", a.Status, a.Body, err)
				}
			})
		}
	}
	asking.Wait()
}

var connections = regexp.MustCompile(`(?m)^holdfast_db_connections\{.*\} (\d+)$`)

func (o *outage) pooled(s *binary.Server) (n int) {
	o.T.Helper()
	s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		n = 0
		for _, found := range connections.FindAllStringSubmatch(body, -1) {
			some, err := strconv.Atoi(found[1])
			harness.Must(o.T, err)
			n += some
		}
		return true
	})
	return n
}
