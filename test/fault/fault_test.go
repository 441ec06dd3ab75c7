// Package fault starts the built binary, runs a workload through the real protocol, and kills the
// server or its database at a random moment, or takes away for a while what they need. Afterwards
// it checks every acknowledgement against the data.
//
// The promise: an acknowledged write is there, as it was sent and with the timestamp of the
// answer. A write whose answer was lost is there as a whole or not at all, also a POST of many
// records or the commit of a batch. No timestamp of a user is assigned twice, and each is greater
// than those known when its request was sent. Counts and usage are the sums of what is listed.
//
// Extension storage promises the same of its revisions and changes, and more: a request with an
// idempotency key happens once; the feed has all changes, in order and without a gap; and each is
// published to the audit at least once. Accounts promise that keys and storage users belong
// together for good.
//
// Buckets promise that an object is read with the MD5 with which it was acknowledged, and that a
// storage node has no file that is neither a body of an object nor garbage, or an audit finds it.
//
// Guests promise that a change with an idempotency key happens once and has one answer, that its
// event is published, in the order of the changes and if it was committed, and that no handoff is
// consumed twice, also in a copy.
//
// All of this holds across a copy to another engine: clients of sync and extension storage are
// refused for a short time, a refused write is not done, and what was acknowledged before and
// after the switch is one history.
//
// The promise holds when the power is cut, too: see TestPowerCut.
//
// While a server runs it answers in bounded time, at worst with 503 and Retry-After. It recovers
// by itself and leaves nothing open.
//
// A fault is written once, and names the engines to which it applies. A service brings a workload:
// how its clients write and read, and what an acknowledgement promises. One server runs the
// workloads of all services, so every fault is tested with every service on every engine that both
// support; FAULT_SERVICE selects one. Tests of one service are in the files that begin with its
// name.
//
// All rounds of a test share one data folder, so each recovers what the one before has recovered.
// By default there are as many rounds as a fault has kinds, and some tests run on one engine only;
// FAULT_ROUNDS changes both. The random
// choices of a client follow from FAULT_SEED, the round and the client. The timing does not, so a
// replay repeats the workload and the intended moment, not the instruction at which a process was
// killed.
package fault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) {
	becomeProgram()
	os.Exit(binary.MainOfWaiting(m, 8))
}

// fault is what happens to a server under load. The load continues until inject returns, which may
// include the end of the fault. recover is called when all requests have ended.
type fault struct {
	inject, recover func()
	deadly          bool // a server is killed: from then on requests may have no answer
	readable        bool // reads are not refused
	certain         bool // a refused write was not done
	resumes         bool // likewise, and its client goes on with others
	busy            bool // clients hardly wait between their requests
}

// harness is a server, the workloads of its services, and the fault.
type harness struct {
	t         *testing.T
	seed      uint64
	data      string
	vars      []string
	client    *http.Client
	server    *binary.Server
	second    *binary.Server                // on the same database, for every other client; may be nil
	moved     atomic.Pointer[binary.Server] // where all clients go from now on in a round; may be nil
	workloads []workload
	load      *load         // of the round
	leaps     bool          // the clock leaps, which may end open batches
	enough    int           // a round waits for at most 20 more acknowledgements than this
	most      int           // rounds, if FAULT_ROUNDS is more; 0: no limit
	bound     time.Duration // for the answer to a request, whatever the fault
	tally     tally
	clock     atomic.Int64 // ticks when a request is sent and when it is acknowledged
}

// newHarness migrates the databases of the settings, and has the workload of every service.
func newHarness(t *testing.T, data string, vars ...string) *harness {
	t.Helper()
	return harnessOf(t, services(), false, data, vars...)
}

// harnessOf has the workloads of some services, with few or more clients.
func harnessOf(t *testing.T, of []service, few bool, data string, vars ...string) *harness {
	t.Helper()
	if len(of) == 0 {
		t.Skipf("service %q, which FAULT_SERVICE selects, has no backend on this engine", os.Getenv("FAULT_SERVICE"))
	}
	h := &harness{t: t, seed: number(t, "FAULT_SEED", rand.Uint64()>>1)} // a seed without a sign is easier to pass on
	h.data = data
	h.vars = slices.Clone(vars)
	for _, s := range all() {
		if !slices.ContainsFunc(of, func(o service) bool { return o.name == s.name }) {
			h.vars = append(h.vars, "HOLDFAST_"+s.section+"__ENABLED=false")
		}
	}
	for _, s := range of {
		h.vars = append(h.vars, s.vars...)
		if s.own != nil {
			postgres := slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_"+s.section+"__DATABASE_URL=postgres") })
			h.vars = append(h.vars, s.own(t, postgres)...)
		}
		h.workloads = append(h.workloads, s.workload(t, few))
	}
	binary.Migrate(t, data, h.vars...)
	h.bound, h.enough = bound, 100
	h.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// serve starts a server on the harness's data.
func (h *harness) serve() *binary.Server { return binary.Start(h.t, h.data, h.vars...) }

// number returns a variable of the environment as a number, or the default.
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

// rounds injects faults until the first error: the model does not hold after one.
func (h *harness) rounds(otherwise uint64, what func(round int) fault) {
	n := int(number(h.t, "FAULT_ROUNDS", otherwise))
	if h.most > 0 {
		n = min(n, h.most)
	}
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
	h.finish()
	h.t.Logf("%s", &h.tally)
}

// injected fails if a fault should have lasted until a write was refused, and none was.
func (h *harness) injected() {
	h.t.Helper()
	if h.tally.held > 0 && h.tally.refused.Load() == 0 && !h.t.Failed() {
		h.t.Errorf("no request was refused in %d rounds", h.tally.rounds)
	}
}

// bound limits every wait. It is shorter than binary.Bound because the server has to answer in this time.
const bound = 30 * time.Second

// round runs the writers until some acknowledgements have come, and injects the fault a moment
// later, so that the moment falls anywhere in a request.
func (h *harness) round(r int, f fault) {
	choose := h.random(r, 0xffff)
	load := newLoad(f)
	h.load = load
	enough := load.after(20 + choose.IntN(h.enough))
	wait := time.Duration(choose.IntN(5000)) * time.Microsecond
	var all []client
	for _, w := range h.workloads {
		all = append(all, w.clients(h, load)...)
	}
	load.pace = max(250*time.Millisecond, time.Duration(len(all))*12*time.Millisecond)
	if f.busy {
		load.pace = 20 * time.Millisecond
	}
	var writing sync.WaitGroup
	for i, client := range all {
		writing.Go(func() { client(h.random(r, uint64(i))) })
	}
	h.await(enough)
	pause(nil, wait)
	close(load.injected)
	f.inject()
	close(load.over)
	writing.Wait() // requests are bounded
	if h.t.Failed() {
		return
	}
	f.recover()
	h.tally.acknowledged += load.count()
	for _, w := range h.workloads {
		w.check(h)
	}
}

// random returns the source of random choices of a client in a round.
func (h *harness) random(round int, who uint64) *rand.Rand {
	return rand.New(rand.NewPCG(h.seed, uint64(round)<<16|who))
}

// finish checks what may happen after the rounds.
func (h *harness) finish() {
	h.t.Helper()
	for _, w := range h.workloads {
		if !h.t.Failed() {
			w.finish(h)
		}
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tally counts the events of a test.
type tally struct {
	rounds, held                int // held: those that lasted until a write was refused
	acknowledged, there, absent int64
	reads, refused, slowest     atomic.Int64 // of reads in a round, answers 503, and the longest wait for any answer
}

func (c *tally) String() string {
	return fmt.Sprintf("%d rounds: %d acknowledgements checked; of the writes without one %d were there and %d were not; %d reads; %d answers of 503; the slowest after %v",
		c.rounds, c.acknowledged, c.there, c.absent, c.reads.Load(), c.refused.Load(), time.Duration(c.slowest.Load()).Round(time.Millisecond))
}
