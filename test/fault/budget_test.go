package fault

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

// attack fills the memory of a server: on each connection a client sends the request, and then
// neither reads the answer nor sends the rest. Refused clients try again.
type attack struct {
	name        string
	connections int
	request     string
	fills       bool // it uses most of the memory of requests; other attacks are stopped by other limits
}

const (
	// requestMemory is server.request_memory in these tests. It is less than the default, so that
	// memory which is not charged shows.
	requestMemory = 64 << 20

	// memoryOverhead is what a server may use besides the memory of requests: its idle size,
	// connections and caches.
	memoryOverhead = 100 << 20

	// attackTime is how long an attack lasts when it has reached its limit.
	attackTime = 2 * time.Second

	recoverTime = time.Minute
)

// A client that takes as much memory as it can gets no more than the budget, does not affect
// others, and leaves nothing behind. FAULT_MINUTE does not apply.
//
//nolint:paralleltest // the garbage collector keeps the limit only if it gets enough CPU
func TestSyncMemoryBudget(t *testing.T) {
	testdb.SoakOnly(t, "it takes a minute or more")
	onEngines(t, []service{syncService()}, inTurn(onPostgres, onSQLite), syncMemoryBudget)
}

func syncMemoryBudget(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	h := startInstance(t, otherCount+1, data, append(vars, memoryVar, "HOLDFAST_LOG__LEVEL=error")...)
	attacker := h.users[0]
	fillCollection(h, attacker, "history", 16<<20) // streamed after it is sorted
	body := `[{"id":"held","payload":"` + strings.Repeat("x", 2<<20) + `"}]`
	upload := string(h.text(attacker, http.MethodPost, "/storage/tabs?batch=true", body))
	h.runAttacks([]attack{
		{"slow readers", 200, string(h.text(attacker, http.MethodGet, "/storage/history?full=1&sort=index", "")), false},
		{"held bodies", 170, upload[:len(upload)-10], true},
	}, func() func() { return h.startOthers(otherCount).stop })
}

// otherCount is the number of clients that work during an attack.
const otherCount = 4

var memoryVar = "HOLDFAST_SERVER__REQUEST_MEMORY=" + strconv.Itoa(requestMemory)

// runAttacks runs the attacks one after the other, and neighbours during each, which must get no
// error. It checks the memory of the server during and after each attack.
func (h *instance) runAttacks(attacks []attack, neighbours func() (stop func())) {
	h.t.Helper()
	before := h.resident("VmRSS")
	for _, a := range attacks {
		before = max(before, h.resident("VmRSS")) // after a large attack it is less until the server works again
		h.resetPeak()
		end := h.begin(a)
		if a.fills {
			h.server.AwaitAnswer("/metrics", func(_ int, metrics string) bool { return memoryUsed(metrics) > requestMemory/2 })
		}
		stop := neighbours()
		pause(h.t.Context().Done(), attackTime)
		stop()
		end()
		peak := h.resident("VmHWM")
		h.t.Logf("%s: %d MB before, %d MB at the peak", a.name, before>>20, peak>>20)
		if peak > requestMemory+memoryOverhead {
			h.t.Errorf("%s: %d MB at the peak, want at most %d MB", a.name, peak>>20, (requestMemory+memoryOverhead)>>20)
		}
		h.awaitMemory(a.name, before)
	}
}

// awaitMemory waits until the server has about as much memory as before an attack.
func (h *instance) awaitMemory(name string, before int64) {
	h.t.Helper()
	h.server.AwaitMetric("holdfast_http_memory_bytes 0")
	start := time.Now()
	for h.resident("VmRSS") > before+before/4+8<<20 {
		if time.Since(start) > recoverTime {
			h.t.Errorf("%s: %d MB a minute later, %d MB before", name, h.resident("VmRSS")>>20, before>>20)
			return
		}
		pause(h.t.Context().Done(), 100*time.Millisecond)
	}
	h.t.Logf("%s: %d MB after %v", name, h.resident("VmRSS")>>20, time.Since(start).Round(100*time.Millisecond))
}

// memoryUsed returns the memory of requests in progress.
func memoryUsed(metrics string) (n float64) {
	if found := memoryLine.FindStringSubmatch(metrics); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}

var memoryLine = regexp.MustCompile(`(?m)^holdfast_http_memory_bytes (\S+)$`)

// begin starts an attack; end stops it.
func (h *instance) begin(a attack) (end func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range a.connections {
		all.Go(func() {
			for !closed(over) {
				h.hold(a.request, over)
				pause(over, 200*time.Millisecond)
			}
		})
	}
	return func() {
		close(over)
		all.Wait() // connections are closed
	}
}

// hold sends a request and reads only the status of the answer. It returns at the end of the
// attack or when the request is refused.
func (h *instance) hold(request string, over <-chan struct{}) {
	conn, err := h.connect(4 << 10)
	if err != nil {
		return
	}
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		status := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.WriteString(conn, request); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, status); err == nil && string(status[9:]) == "200" {
			<-over
		}
	}()
	select {
	case <-refused:
	case <-over:
	}
	_ = conn.Close()
	<-refused
}

// resetPeak resets VmHWM.
func (h *instance) resetPeak() {
	h.t.Helper()
	must(h.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", h.server.Cmd.Process.Pid), []byte("5"), 0))
}
