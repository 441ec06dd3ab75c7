// Package harness runs workloads against a server during faults: it starts servers, injects faults in rounds, checks
// every response, and provides clocks, networks and disks that fail.
package harness

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// Fault describes a fault under load. The load continues until Inject returns, possibly after the fault has ended.
// Recover is called when all requests have ended.
type Fault struct {
	Inject, Recover func()
	Deadly          bool // kills a server, so later requests may get no response
	Readable        bool // reads must not be refused
	Certain         bool // a refused write had no effect
	Resumes         bool // like Certain, and the client continues with other writes
	Busy            bool // clients hardly wait between requests
}

type Harness struct {
	T         *testing.T
	Seed      uint64
	Data      string
	Vars      []string
	Client    *http.Client
	Server    *binary.Server
	Second    *binary.Server                // on the same database, used by every other client; may be nil
	Moved     atomic.Pointer[binary.Server] // replaces the server during a round; may be nil
	Workloads []Workload
	Load      *Load
	Leaps     bool          // the clock leaps, which may end open batches
	Enough    int           // a round starts its fault after 20 acknowledgements plus a random number below this
	Most      int           // maximum number of rounds, if below FAULT_ROUNDS; 0 for no limit
	Bound     time.Duration // limits every response during any fault
	Tally     tally
	Clock     atomic.Int64 // increases with every request and acknowledgement
}

// New returns a harness with these services' workloads.
func New(t *testing.T, of []Service, few bool, data string, vars ...string) *Harness {
	t.Helper()
	if len(of) == 0 {
		t.Skipf("unset FAULT_SERVICE, or set another service: %q has no backend on this engine", os.Getenv("FAULT_SERVICE"))
	}
	h := &Harness{T: t, Seed: Number(t, "FAULT_SEED", rand.Uint64()>>1)} // positive, so easier to type
	h.Data = data
	h.Vars = slices.Clone(vars)
	for _, section := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS", "GUEST"} {
		if !slices.ContainsFunc(of, func(s Service) bool { return s.Section == section }) {
			h.Vars = append(h.Vars, "HOLDFAST_"+section+"__ENABLED=false")
		}
	}
	for _, s := range of {
		h.Vars = append(h.Vars, s.Vars...)
		if s.Own != nil {
			postgres := slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_"+s.Section+"__DATABASE_URL=postgres") })
			h.Vars = append(h.Vars, s.Own(t, postgres)...)
		}
		h.Workloads = append(h.Workloads, s.Workload(t, few))
	}
	binary.Migrate(t, data, h.Vars...)
	h.Bound, h.Enough = Bound, 100
	h.Client = &http.Client{Timeout: Bound, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(h.Client.CloseIdleConnections)
	return h
}

func (h *Harness) Serve() *binary.Server { return binary.Start(h.T, h.Data, h.Vars...) }

// Number parses an environment variable, or returns the default.
func Number(t *testing.T, name string, otherwise uint64) uint64 {
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

// Rounds injects faults until the first error, which invalidates the model.
func (h *Harness) Rounds(otherwise uint64, what func(round int) Fault) {
	n := int(Number(h.T, "FAULT_ROUNDS", otherwise))
	if h.Most > 0 {
		n = min(n, h.Most)
	}
	if n < 1 {
		h.T.Fatal("FAULT_ROUNDS is less than one round, which would check nothing")
	}
	at := 0
	h.T.Cleanup(func() {
		if h.T.Failed() {
			h.T.Logf("in round %d; to replay: FAULT_SEED=%d FAULT_ROUNDS=%d go test -run '^%s$' ./test/fault/...", at, h.Seed, at, h.T.Name())
		}
	})
	for r := range n {
		at = r + 1
		if h.Round(r, what(r)); h.T.Failed() {
			return
		}
	}
	h.Tally.Rounds = n
	h.Finish()
	h.T.Logf("%s", &h.Tally)
}

// Injected fails the test if a fault should have lasted until a write was refused, but no write was refused.
func (h *Harness) Injected() {
	h.T.Helper()
	if h.Tally.Held > 0 && h.Tally.Refused.Load() == 0 && !h.T.Failed() {
		h.T.Errorf("no request was refused in %d rounds", h.Tally.Rounds)
	}
}

// Bound limits every wait. It is below binary.Bound because the server must respond in time.
var Bound = testdb.Patient(30 * time.Second)

// Round starts the writers, waits for some acknowledgements, and injects the fault a moment later, at any point in a
// request.
func (h *Harness) Round(r int, f Fault) {
	choose := h.Random(r, 0xffff)
	load := newLoad(f)
	h.Load = load
	enough := load.After(20 + choose.IntN(h.Enough))
	wait := time.Duration(choose.IntN(5000)) * time.Microsecond
	var all []Client
	for _, w := range h.Workloads {
		all = append(all, w.Clients(h, load)...)
	}
	load.pace = max(250*time.Millisecond, time.Duration(len(all))*12*time.Millisecond)
	if f.Busy {
		load.pace = 20 * time.Millisecond
	}
	var writing sync.WaitGroup
	for i, client := range all {
		writing.Go(func() { client(h.Random(r, uint64(i))) })
	}
	h.Await(enough)
	Pause(nil, wait)
	close(load.injected)
	f.Inject()
	close(load.Over)
	writing.Wait()
	if h.T.Failed() {
		return
	}
	f.Recover()
	h.Tally.Acknowledged += load.count()
	for _, w := range h.Workloads {
		w.Check(h)
	}
}

// Random returns a client's random source for a round.
func (h *Harness) Random(round int, who uint64) *rand.Rand {
	return rand.New(rand.NewPCG(h.Seed, uint64(round)<<16|who))
}

func (h *Harness) Finish() {
	h.T.Helper()
	for _, w := range h.Workloads {
		if !h.T.Failed() {
			w.Finish(h)
		}
	}
}

// Await waits until enough is closed, but no longer than Bound.
func (h *Harness) Await(enough <-chan struct{}) {
	h.T.Helper()
	if Pause(enough, Bound); !Closed(enough) && !h.T.Failed() {
		h.T.Errorf("only %d acknowledgements in %v", h.Load.count(), Bound)
	}
}

// Pause waits until c is closed or d has elapsed.
func Pause(c <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type tally struct {
	Rounds, Held                int // Held counts rounds that lasted until a write was refused
	Acknowledged, There, absent int64
	Reads, Refused, slowest     atomic.Int64 // reads in a round, 503s, and the longest wait for an answer
}

func (c *tally) String() string {
	return fmt.Sprintf("%d rounds: %d acknowledgements checked; of the writes without one %d were there and %d were not; %d reads; %d answers of 503; the slowest after %v",
		c.Rounds, c.Acknowledged, c.There, c.absent, c.Reads.Load(), c.Refused.Load(), time.Duration(c.slowest.Load()).Round(time.Millisecond))
}

// DbPatience is the server's timeout for connections and statements.
var DbPatience = testdb.Patient(4 * time.Second)

func (h *Harness) Choice(round int) *rand.Rand {
	return h.Random(round, 0xfffe)
}

// Hold keeps a fault for a moment or, in every third round, until a write is refused, which must happen in time. Fault
// kinds alternate.
func (h *Harness) Hold(round, kinds int, choose *rand.Rand) {
	if Lasts(round, kinds) {
		Pause(h.Load.Refused, h.Bound+time.Second)
		h.Tally.Held++
	}
	Pause(nil, time.Duration(choose.IntN(200))*time.Millisecond)
}

// Lasts reports whether a fault lasts until a write is refused.
func Lasts(round, kinds int) bool { return (round/kinds+round%kinds)%3 == 1 }

// End fails the test if outages left goroutines in the server.
func (h *Harness) End() {
	h.T.Helper()
	if h.Second == nil { // with two servers, one was always available
		h.Injected()
	}
	h.Client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	goroutines := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
	h.Server.AwaitAnswer("/metrics", func(_ int, body string) bool {
		found := goroutines.FindStringSubmatch(body)
		if found == nil {
			return false
		}
		n, err := strconv.Atoi(found[1])
		return err == nil && n < 80 // an idle server has about 55; a hundred requests had failed
	})
}
