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

// Attack is a request that fills a server's memory: each client sends it, and then neither reads the response nor
// sends the rest. Refused clients retry.
type Attack struct {
	Name        string
	Connections int
	Request     string
	Fills       bool // uses most of the request memory; otherwise other limits stop the attack
}

const (
	// RequestMemory is server.request_memory in tests, below the default, so that uncharged memory stands out.
	RequestMemory = 64 << 20

	// MemoryOverhead is the server's memory besides requests: idle size, connections and caches.
	MemoryOverhead = 100 << 20

	attackTime = 2 * time.Second

	recoverTime = time.Minute
)

var MemoryVar = "HOLDFAST_SERVER__REQUEST_MEMORY=" + strconv.Itoa(RequestMemory)

// RunAttacks runs the attacks in sequence. The neighbours send requests during each attack and must get no error.
// RunAttacks checks the server's memory during and after each attack.
func (h *Instance) RunAttacks(attacks []Attack, neighbours func() (stop func())) {
	h.T.Helper()
	before := h.Resident("VmRSS")
	for _, a := range attacks {
		before = max(before, h.Resident("VmRSS")) // after a large attack the value is lower until the server works again
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

func memoryUsed(metrics string) (n float64) {
	if found := memoryLine.FindStringSubmatch(metrics); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}

var memoryLine = regexp.MustCompile(`(?m)^holdfast_http_memory_bytes (\S+)$`)

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
		all.Wait()
	}
}

// hold sends a request and reads only the response status, until the attack ends or the request is refused.
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

const (
	// IdleMemory limits an idle server. It excludes up to 60 MB for the program file, which the kernel can evict.
	IdleMemory = 30 << 20

	// LoadMemory limits 64 uploads (a 100 KB body and its decoded records each) and 16 downloads (a 2 MB page and up to 4
	// MB SQLite cache each). That is 115 MB; garbage may double it.
	LoadMemory = 256 << 20
)
