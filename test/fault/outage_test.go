package fault

import (
	"context"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/test/binary"
)

// outage is a database that is not always available to a harness's server.
type outage struct {
	*harness
	url   string // always leads to the database
	admin *pgx.Conn
}

// dbPatience is the server's timeout for a connection, and for a statement.
const dbPatience = 4 * time.Second

// newOutage starts a server on the database at the address, which may lead through a network that
// fails.
func newOutage(t *testing.T, url, at string, vars ...string) *outage {
	t.Helper()
	vars = append(append(vars, "HOLDFAST_LOG__ACCESS=false"), servicesOn(at)...)
	vars = append(vars, timeouts(services(), dbPatience)...)
	o := &outage{newHarness(t, t.TempDir(), vars...), url, nil}
	// The timeouts for a connection and a statement, a second to cancel the statement, and the
	// delays of a busy machine.
	o.bound = 2*dbPatience + time.Second + 5*time.Second
	o.server = o.serve()
	o.connect()
	return o
}

// connect opens the operator's connection, which observes the database.
func (o *outage) connect() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	var err error
	o.admin, err = pgx.Connect(ctx, o.url)
	must(o.t, err)
	conn := o.admin
	o.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its server may be stopped
}

// execute runs a statement of the operator.
func (o *outage) execute(sql string, args ...any) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	_, err := o.admin.Exec(ctx, sql, args...)
	must(o.t, err)
}

// choice returns the random choices of a round.
func (h *harness) choice(round int) *rand.Rand {
	return h.random(round, 0xfffe)
}

// hold lasts for a moment in most rounds, and in one of three until a write is refused, which must
// happen in time. Faults of several kinds take turns.
func (h *harness) hold(round, kinds int, choose *rand.Rand) {
	if lasts(round, kinds) {
		pause(h.load.refused, h.bound+time.Second)
		h.tally.held++
	}
	pause(nil, time.Duration(choose.IntN(200))*time.Millisecond)
}

func lasts(round, kinds int) bool { return (round/kinds+round%kinds)%3 == 1 }

// recovered waits until the server has recovered by itself, and the database has finished all
// statements, also those whose client is gone. What is left are the idle connections of the
// server's pools. A few that were not used since may exist only in the server.
func (o *outage) recovered() {
	o.t.Helper()
	o.server.Await("/readyz", http.StatusOK)
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	used := false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var open, busy int
		must(o.t, o.admin.QueryRow(ctx, `
			SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'holdfast%'`).Scan(&open, &busy))
		pooled := o.pooled(o.server)
		if o.second != nil {
			pooled += o.pooled(o.second)
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
			o.t.Fatalf("the database has %d connections of the server, %d of them busy; the server has %d", open, busy, pooled)
		}
	}
}

// useAll sends as many concurrent requests as there are writers, so that the server discovers
// closed connections.
func (o *outage) useAll() {
	o.t.Helper()
	var asking sync.WaitGroup
	for _, w := range o.workloads {
		for _, read := range w.reads(o.harness) {
			asking.Go(func() {
				if a, err := read(); err != nil || a.Status != http.StatusOK {
					o.t.Errorf("after the outage: %d %s %v", a.Status, a.Body, err)
				}
			})
		}
	}
	asking.Wait()
}

// connections matches the connections of a server's services to their databases.
var connections = regexp.MustCompile(`(?m)^holdfast_db_connections\{.*\} (\d+)$`)

// pooled returns the number of connections of a server to the database.
func (o *outage) pooled(s *binary.Server) (n int) {
	o.t.Helper()
	s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		n = 0
		for _, found := range connections.FindAllStringSubmatch(body, -1) {
			some, err := strconv.Atoi(found[1])
			must(o.t, err)
			n += some
		}
		return true
	})
	return n
}

// end fails if the outages have left something behind in the server.
func (h *harness) end() {
	h.t.Helper()
	if h.second == nil { // with two servers one is always available
		h.injected()
	}
	h.client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	goroutines := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
	h.server.AwaitAnswer("/metrics", func(_ int, body string) bool {
		found := goroutines.FindStringSubmatch(body)
		if found == nil {
			return false
		}
		n, err := strconv.Atoi(found[1])
		return err == nil && n < 80 // an idle server has about 55; a hundred requests have failed
	})
}
