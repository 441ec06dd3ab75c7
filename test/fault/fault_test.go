// Package fault starts the built binary, drives a recorded workload through the
// real protocol, ends the server or its database as a crash does at a random
// moment, or takes away for a while what they need, and afterwards checks every
// acknowledgement against what is there.
//
// What is promised: an acknowledged write is there, as it was sent and with the
// stamp that was answered. A write whose answer was lost is whole or absent,
// also when it is a POST of many records or the commit of a batch. No stamp of
// a user is given twice, and none is at or before one that was known when its
// request was sent. Counts and usage are the sums of what is listed.
//
// Extension storage, which the files ext_* are about, promises as much of its
// revisions and changes, and more: a request with a key of its own happens once,
// however often it comes; the feed has all changes, without a gap and in their
// order; and the audit was told of each, at least once.
//
// While a server lives it answers in bounded time, at worst with 503 and when to
// come again; it finds its way back by itself and leaves nothing open behind.
//
// All rounds of a test share one data folder: each recovers what the one before
// has recovered. FAULT_ROUNDS says how many there are. The random choices of a
// writer follow from FAULT_SEED, the round and the writer; what the machine
// does meanwhile does not, so a replay repeats the workload and the intended
// moment, not the instruction at which a process died.
package fault

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) {
	// These tests wait for faults to pass more than for a processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(binary.Main(m))
}

// A kill -9 takes away what the server had in memory and not yet in a file.
func TestKillOnSQLite(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testdb.SQLite(t)).installed(2)
	h.server = h.serve()
	h.rounds(20, func(int) fault {
		return fault{strike: h.server.Kill, recover: func() { h.server = h.serve() }, deadly: true}
	})
}

// The server and the database are killed in turns: one leaves transactions
// behind at the other, the other takes them from it.
func TestKillOnPostgres(t *testing.T) {
	t.Parallel()
	db := testdb.DurablePostgres(t)
	h := newHarness(t, t.TempDir(), roomsOn(db.URL())...).installed(2)
	h.server = h.serve()
	server := fault{strike: func() { h.server.Kill() }, recover: func() {
		abandoned(t, db.URL())
		h.server = h.serve()
	}, deadly: true}
	database := fault{strike: func() { must(t, db.Kill()) }, recover: func() {
		must(t, db.Start())
		h.server.Await("/readyz", http.StatusOK)
	}}
	h.rounds(10, func(round int) fault { return []fault{server, database}[round%2] })
}

// onBoth runs a test on both engines, with the folder of a server's data and
// its settings.
func onBoth(t *testing.T, run func(t *testing.T, data string, vars ...string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		run(t, testdb.SQLite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		run(t, t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+testdb.PostgresDatabase(t))
	})
}

// roomsOn are the settings of a server whose rooms are all in one database.
func roomsOn(url string) []string {
	return []string{"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_EXTSTORAGE__DATABASE_URL=" + url}
}

// fault is what happens to a server under load, which goes on until strike has
// returned: a strike may also be the end of its fault. recover comes after all
// that was under way.
type fault struct {
	strike, recover func()
	deadly          bool // a server dies: from then on requests may have no answer
	readable        bool // who reads is not refused
	certain         bool // a write that is refused has not been done
}

// harness is a server, those who write to it, and what they know.
type harness struct {
	t        *testing.T
	seed     uint64
	data     string
	vars     []string
	client   *http.Client
	server   *binary.Server
	second   *binary.Server // on the same database, for every other writer; may be nil
	users    []*user
	writers  []*writer
	installs []*install    // none, or the room of extensions is written to, too
	load     *load         // of the round
	leaps    bool          // the clock does, and open batches may end by it
	stages   bool          // a commit that is not done may leave its own records in the batch
	enough   int           // at most 20 more acknowledgements than this are waited for in a round
	bound    time.Duration // in which a request is answered, come what may
	tally    tally
	clock    atomic.Int64 // ticks when a request is sent and when it is acknowledged
}

const (
	users          = 3
	writersPerUser = 3
)

func newHarness(t *testing.T, data string, vars ...string) *harness {
	t.Helper()
	h := &harness{t: t, seed: number(t, "FAULT_SEED", rand.Uint64()>>1)} // a seed is easier to pass on without a sign
	h.data = data
	h.vars = append(append(vars, "SYNC_MASTER_SECRET="+secret, "SYNC_TOKENSERVER__ENABLED=false"), extVars()...)
	if r := binary.Run(t, binary.Environ(append(h.vars, "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	h.bound, h.enough = bound, 100
	h.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(h.client.CloseIdleConnections)
	for range users {
		h.join(newUser(t, secret, int64(len(h.users)+1)), writersPerUser)
	}
	return h
}

// join adds a user and those who write for it.
func (h *harness) join(u *user, writers int) {
	h.users = append(h.users, u)
	for range writers {
		h.writers = append(h.writers, newWriter(u, len(h.writers)))
	}
}

// secret is the master secret of a harness's servers.
const secret = "of the fault harness"

// serve runs a server on the harness's data.
func (h *harness) serve() *binary.Server { return binary.Start(h.t, h.data, h.vars...) }

// number is a variable of the environment, or what holds without it.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// rounds strikes again and again, and stops at the first thing that is wrong:
// what comes after would be judged by a model that is no longer true.
func (h *harness) rounds(otherwise uint64, what func(round int) fault) {
	n := int(number(h.t, "FAULT_ROUNDS", otherwise))
	if n < 1 {
		h.t.Fatal("FAULT_ROUNDS is less than one round, which would check nothing")
	}
	at := 0
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("in round %d; to replay: FAULT_SEED=%d FAULT_ROUNDS=%d go test -run '^%s$' ./test/fault", at, h.seed, at, h.t.Name())
		}
	})
	for r := range n {
		at = r + 1
		if h.round(r, what(r)); h.t.Failed() {
			return
		}
	}
	h.tally.rounds = n
	h.audited()
	h.t.Logf("%s", &h.tally)
}

// struck fails where the faults of many rounds had nobody refused: they were
// none.
func (h *harness) struck() {
	h.t.Helper()
	if h.tally.rounds >= 10 && h.tally.refused.Load() == 0 && !h.t.Failed() {
		h.t.Errorf("nobody was refused in %d rounds", h.tally.rounds)
	}
}

// bound is how long anything that is waited for may take.
const bound = binary.Bound

// round lets all write until some number of acknowledgements has come, and
// strikes a moment later, so that the moment falls anywhere in a request.
func (h *harness) round(r int, f fault) {
	choose := rand.New(rand.NewPCG(h.seed, uint64(r)<<8|0xff))
	load := newLoad(f)
	h.load = load
	enough := load.after(20 + choose.IntN(h.enough))
	wait := time.Duration(choose.IntN(5000)) * time.Microsecond
	var writing sync.WaitGroup
	for i, w := range h.writers {
		w.choose = rand.New(rand.NewPCG(h.seed, uint64(r)<<8|uint64(i)))
		writing.Go(func() { w.run(h, load) })
	}
	for i, u := range h.users {
		choose := rand.New(rand.NewPCG(h.seed, uint64(r)<<8|0x80|uint64(i)))
		writing.Go(func() { u.read(h, load, choose) })
	}
	for i, w := range h.authors() {
		w.trail = nil
		w.choose = rand.New(rand.NewPCG(h.seed, uint64(r)<<8|0x40|uint64(i)))
		writing.Go(func() { w.run(h, load) })
	}
	for i, in := range h.installs {
		in.before = len(in.feed)
		choose := rand.New(rand.NewPCG(h.seed, uint64(r)<<8|0xc0|uint64(i)))
		writing.Go(func() { in.read(h, load, choose) })
	}
	h.await(enough)
	pause(nil, wait)
	close(load.struck)
	f.strike()
	close(load.over)
	writing.Wait() // requests are bounded
	if h.t.Failed() {
		return
	}
	f.recover()
	h.tally.acknowledged += load.count()
	for _, u := range h.users {
		h.check(u)
	}
	for _, in := range h.installs {
		h.checkInstall(in)
	}
}

// await returns when a number of acknowledgements has come.
func (h *harness) await(enough <-chan struct{}) {
	h.t.Helper()
	if pause(enough, bound); !closed(enough) && !h.t.Failed() {
		h.t.Errorf("only %d acknowledgements in %v", h.load.count(), bound)
	}
}

// pause returns when c is closed, or after some time.
func pause(c <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

// abandoned returns when the database has dealt with what a dead server asked
// of it: a statement that it has begun it also ends, and commits.
func abandoned(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(ctx))) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		must(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n))
		if n == 0 {
			return
		}
		<-tick.C // the query fails when the time is over
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tally is what a test has seen.
type tally struct {
	rounds                      int
	acknowledged, there, absent int64
	reads, refused, slowest     atomic.Int64 // of reads in a round, answers 503, and the longest wait for any answer
}

func (c *tally) String() string {
	return fmt.Sprintf("%d rounds: %d acknowledgements checked; of the writes without one %d were there and %d were not; %d reads; %d answers of 503; the slowest after %v",
		c.rounds, c.acknowledged, c.there, c.absent, c.reads.Load(), c.refused.Load(), time.Duration(c.slowest.Load()).Round(time.Millisecond))
}
