package harness

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// Attack fills the memory of a server: on each connection a client sends the request, and then
// neither reads the answer nor sends the rest. Refused clients try again.
type Attack struct {
	Name        string
	Connections int
	Request     string
	Fills       bool // it uses most of the memory of requests; other attacks are stopped by other limits
}

const (
	// RequestMemory is server.request_memory in these tests. It is less than the default, so that
	// memory which is not charged shows.
	RequestMemory = 64 << 20

	// MemoryOverhead is the memory that a server may use in addition to requests: its idle size,
	// connections and caches.
	MemoryOverhead = 100 << 20

	// attackTime is how long an attack lasts when it has reached its limit.
	attackTime = 2 * time.Second

	recoverTime = time.Minute
)

// MemoryVar is the setting of RequestMemory.
var MemoryVar = "HOLDFAST_SERVER__REQUEST_MEMORY=" + strconv.Itoa(RequestMemory)

// RunAttacks runs the attacks one after the other, and neighbours during each, which must get no
// error. It checks the memory of the server during and after each attack.
func (h *Instance) RunAttacks(attacks []Attack, neighbours func() (stop func())) {
	h.T.Helper()
	before := h.Resident("VmRSS")
	for _, a := range attacks {
		before = max(before, h.Resident("VmRSS")) // after a large attack it is less until the server works again
		h.ResetPeak()
		end := h.begin(a)
		if a.Fills {
			h.Server.AwaitAnswer("/metrics", func(_ int, metrics string) bool { return memoryUsed(metrics) > RequestMemory/2 })
		}
		stop := neighbours()
		Pause(h.T.Context().Done(), attackTime)
		stop()
		end()
		peak := h.Resident("VmHWM")
		h.T.Logf("%s: %d MB before, %d MB at the peak", a.Name, before>>20, peak>>20)
		if peak > RequestMemory+MemoryOverhead {
			h.T.Errorf("%s: %d MB at the peak, want at most %d MB", a.Name, peak>>20, (RequestMemory+MemoryOverhead)>>20)
		}
		h.awaitMemory(a.Name, before)
	}
}

// awaitMemory waits until the server has about as much memory as before an attack.
func (h *Instance) awaitMemory(name string, before int64) {
	h.T.Helper()
	h.Server.AwaitMetric("holdfast_http_memory_bytes 0")
	start := time.Now()
	for h.Resident("VmRSS") > before+before/4+8<<20 {
		if time.Since(start) > recoverTime {
			h.T.Errorf("%s: %d MB a minute later, %d MB before", name, h.Resident("VmRSS")>>20, before>>20)
			return
		}
		Pause(h.T.Context().Done(), 100*time.Millisecond)
	}
	h.T.Logf("%s: %d MB after %v", name, h.Resident("VmRSS")>>20, time.Since(start).Round(100*time.Millisecond))
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
func (h *Instance) begin(a Attack) (end func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range a.Connections {
		all.Go(func() {
			for !Closed(over) {
				h.hold(a.Request, over)
				Pause(over, 200*time.Millisecond)
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
func (h *Instance) hold(request string, over <-chan struct{}) {
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

// ResetPeak resets VmHWM.
func (h *Instance) ResetPeak() {
	h.T.Helper()
	Must(h.T, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", h.Server.Cmd.Process.Pid), []byte("5"), 0))
}

// Limits of the memory, in bytes.
const (
	// IdleMemory is without the pages of the program's file, which the system can drop: up
	// to 60 MB if they are all in its cache.
	IdleMemory = 30 << 20

	// LoadMemory is for 64 uploads and 16 downloads at once: an upload holds its body of 100 KB
	// and the decoded records, a download a page of 2 MB and up to 4 MB of the file in SQLite's
	// cache. That is 115 MB; garbage may take as much.
	LoadMemory = 256 << 20
)
