package fault

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"holdfast/test/binary"
)

// load is the state that the writers of a round and the fault share.
type load struct {
	fault
	injected chan struct{} // from now on requests may be refused, or lost if the fault is deadly
	refused  chan struct{} // a write was refused
	over     chan struct{} // the fault has happened: stop writing
	once     sync.Once     // closes refused
	pace     time.Duration // of each client while the fault lasts

	mu           sync.Mutex
	acknowledged int64
	marks        map[int64]chan struct{} // closed when the count is reached
	ended        bool                    // an error was found: stop waiting
}

func newLoad(f fault) *load {
	return &load{
		fault: f, injected: make(chan struct{}), refused: make(chan struct{}), over: make(chan struct{}),
		marks: map[int64]chan struct{}{},
	}
}

// after returns a channel that is closed after n more acknowledgements, or when an error has ended
// the load.
func (l *load) after(n int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.acknowledged + int64(n)
	if l.marks[at] == nil {
		l.marks[at] = make(chan struct{})
		if l.ended {
			close(l.marks[at])
		}
	}
	return l.marks[at]
}

func (l *load) acknowledge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged++
	if mark := l.marks[l.acknowledged]; mark != nil && !l.ended {
		close(mark)
	}
}

func (l *load) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged
}

func (l *load) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, mark := range l.marks {
		if !l.ended && at > l.acknowledged {
			close(mark)
		}
	}
	l.ended = true
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// serverOf returns the server of the n-th client of a workload.
func (h *harness) serverOf(n int) *binary.Server {
	if moved := h.moved.Load(); moved != nil {
		return moved
	}
	if h.second != nil && n%2 == 1 {
		return h.second
	}
	return h.server
}

// unavailable reports whether an answer is a 503 with Retry-After.
func unavailable(a binary.Answer) bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
}

// judge sends a request of a round and checks that it is answered in time, and after the fault at
// worst with a 503 and Retry-After; answered is false then. Only a killed server may leave it
// without an answer, and only a listing may be cut off.
func (h *harness) judge(l *load, method, path string, send func() (binary.Answer, error)) (a binary.Answer, answered bool) {
	if closed(l.injected) { // a fault may last: few requests show its effects as well as many
		pause(l.over, l.pace)
	}
	start := time.Now()
	a, err := send()
	took := time.Since(start)
	for last := h.tally.slowest.Load(); int64(took) > last && !h.tally.slowest.CompareAndSwap(last, int64(took)); {
		last = h.tally.slowest.Load()
	}
	wrong := ""
	switch {
	case took > h.bound:
		wrong = "too slow"
	case err == nil && a.Status < http.StatusInternalServerError:
		return a, true
	case !closed(l.injected):
		wrong = "before any fault"
	case err != nil:
		if !l.deadly && !(method == http.MethodGet && a.Status == http.StatusOK) {
			wrong = "without an answer"
		}
	case !unavailable(a) && a.Status != http.StatusInsufficientStorage || l.readable && method == http.MethodGet:
		wrong = "a failure that is none of the fault's"
	}
	if wrong != "" {
		h.t.Errorf("%s: %s %s: %d %s %v after %v", wrong, method, path, a.Status, a.Body, err, took)
		l.end()
	}
	if err == nil {
		h.tally.refused.Add(1)
		if method != http.MethodGet {
			l.once.Do(func() { close(l.refused) })
		}
	}
	return a, false
}

// decided counts whether a write without an answer was done.
func (h *harness) decided(write fmt.Stringer, refused, there bool) {
	h.t.Helper()
	if !there {
		h.tally.absent++
		return
	}
	h.tally.there++
	if h.load.certain && refused {
		h.t.Errorf("%s was refused, and done", write)
	}
}
