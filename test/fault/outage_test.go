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

// outage is a database that is there for a harness's server at times.
type outage struct {
	*harness
	url   string // that leads to the database in any case
	admin *pgx.Conn
}

// dbPatience is how long the server of an outage waits for a connection, and how
// long for a statement.
const dbPatience = 4 * time.Second

// newOutage runs a server on the database under the address at, which may lead
// through what breaks.
func newOutage(t *testing.T, url, at string, vars ...string) *outage {
	t.Helper()
	vars = append(append(vars, "HOLDFAST_LOG__ACCESS=false"), servicesOn(at)...)
	vars = append(vars, timeouts(services(), dbPatience)...)
	o := &outage{newHarness(t, t.TempDir(), vars...), url, nil}
	// A wait for a connection, one for the statement, a second in which the
	// database is told to stop it; and the machine may be busy.
	o.bound = 2*dbPatience + time.Second + 5*time.Second
	o.server = o.serve()
	o.connect()
	return o
}

// connect makes the connection of the operator, who sees what goes on.
func (o *outage) connect() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	var err error
	o.admin, err = pgx.Connect(ctx, o.url)
	must(o.t, err)
	conn := o.admin
	o.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its server may be gone
}

// execute runs a statement of the operator.
func (o *outage) execute(sql string, args ...any) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	_, err := o.admin.Exec(ctx, sql, args...)
	must(o.t, err)
}

// choice are the random choices of a strike.
func (h *harness) choice(round int) *rand.Rand {
	return h.random(round, 0xfffe)
}

// hold lasts for a moment in most rounds, and in one of three until a write is
// refused, which has to happen in time. Faults that come in several kinds, one
// after the other, take their turns at that.
func (h *harness) hold(round, kinds int, choose *rand.Rand) {
	if (round/kinds+round%kinds)%3 == 1 {
		pause(h.load.refused, h.bound+time.Second)
		h.tally.held++
	}
	pause(nil, time.Duration(choose.IntN(200))*time.Millisecond)
}

// recovered waits until the server has found its way back by itself, and until
// the database has dealt with all that it was asked for: a statement that
// nobody waits for any more may still be carried out. What is left are the
// connections of the server's pools, with nothing open on them; a few that nobody
// has used since may be there at the server only.
func (o *outage) recovered() {
	o.t.Helper()
	o.server.Await("/readyz", http.StatusOK)
	ctx, cancel := context.WithTimeout(o.t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for used := false; ; {
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
		case <-tick.C:
		case <-ctx.Done():
			o.t.Fatalf("the database has %d connections of the server, %d of them busy; the server has %d", open, busy, pooled)
		}
	}
}

// useAll sends as many requests at once as there are writers, so that the
// server finds the connections that the database has ended.
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

// connections are those of a server's services to their databases.
var connections = regexp.MustCompile(`(?m)^holdfast_db_connections\{.*\} (\d+)$`)

// pooled is how many connections to the database a server has.
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
	if h.second == nil { // with two there is always one that serves
		h.struck()
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
		return err == nil && n < 50 // an idle server has about 20; a hundred requests have failed
	})
}
