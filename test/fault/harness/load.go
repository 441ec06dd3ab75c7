package harness

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"holdfast/test/binary"
)

// Load is the state that a round's writers share with the fault.
type Load struct {
	Fault
	injected chan struct{} // closed when later requests may be refused or, if the fault is deadly, lost
	Refused  chan struct{}
	Over     chan struct{} // closed after the fault, when clients must stop writing
	once     sync.Once
	pace     time.Duration // pause between a client's requests during the fault

	mu           sync.Mutex
	acknowledged int64
	marks        map[int64]chan struct{} // each is closed when its count is reached
	ended        bool                    // set after an error, so that nobody waits
}

func newLoad(f Fault) *Load {
	return &Load{
		Fault: f, injected: make(chan struct{}), Refused: make(chan struct{}), Over: make(chan struct{}),
		marks: map[int64]chan struct{}{},
	}
}

// After returns a channel that is closed after n more acknowledgements or an error.
func (l *Load) After(n int) <-chan struct{} {
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

func (l *Load) Acknowledge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged++
	if mark := l.marks[l.acknowledged]; mark != nil && !l.ended {
		close(mark)
	}
}

func (l *Load) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged
}

// End ends all waits after an error.
func (l *Load) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, mark := range l.marks {
		if !l.ended && at > l.acknowledged {
			close(mark)
		}
	}
	l.ended = true
}

func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (h *Harness) ServerOf(n int) *binary.Server {
	if moved := h.Moved.Load(); moved != nil {
		return moved
	}
	if h.Second != nil && n%2 == 1 {
		return h.Second
	}
	return h.Server
}

type Result int

// Results.
const (
	Nothing Result = iota
	Acknowledged
	Lost
)

// Drive repeats a client's step until the fault ends, an error occurs, or the server may be dead.
func (h *Harness) Drive(l *Load, step func() (Result, error)) {
	for !Closed(l.Over) {
		result, err := step()
		switch {
		case err != nil:
			h.T.Error(err)
			l.End()
			return
		case result == Acknowledged:
			l.Acknowledge()
		case result == Lost && l.Deadly:
			return
		}
	}
}

// Unavailable reports whether a response is a 503 with Retry-After.
func Unavailable(a binary.Answer) bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
}

// Judge sends a request and requires a response in time. After the fault was injected, it may be a 503 with
// Retry-After; Judge then returns answered = false. Only a killed server may give no response, and only a list
// response may be cut off.
func (h *Harness) Judge(l *Load, method, path string, send func() (binary.Answer, error)) (a binary.Answer, answered bool) {
	if Closed(l.injected) { // a few requests are enough during a lasting fault
		Pause(l.Over, l.pace)
	}
	start := time.Now()
	a, err := send()
	took := time.Since(start)
	for last := h.Tally.slowest.Load(); int64(took) > last && !h.Tally.slowest.CompareAndSwap(last, int64(took)); {
		last = h.Tally.slowest.Load()
	}
	wrong := ""
	switch {
	case took > h.Bound:
		wrong = "too slow"
	case err == nil && a.Status < http.StatusInternalServerError:
		return a, true
	case !Closed(l.injected):
		wrong = "before any fault"
	case err != nil:
		if !l.Deadly && !(method == http.MethodGet && a.Status == http.StatusOK) {
			wrong = "without an answer"
		}
	case !Unavailable(a) && a.Status != http.StatusInsufficientStorage || l.Readable && method == http.MethodGet:
		wrong = "a failure without relation to the fault"
	}
	if wrong != "" {
		h.T.Errorf("%s: %s %s: %d %s %v after %v", wrong, method, path, a.Status, a.Body, err, took)
		l.End()
	}
	if err == nil {
		h.Tally.Refused.Add(1)
		if method != http.MethodGet {
			l.once.Do(func() { close(l.Refused) })
		}
	}
	return a, false
}

// Decided counts whether a write without a response took effect.
func (h *Harness) Decided(write fmt.Stringer, refused, there bool) {
	h.T.Helper()
	if !there {
		h.Tally.absent++
		return
	}
	h.Tally.There++
	if h.Load.Certain && refused {
		h.T.Errorf("%s was refused but done", write)
	}
}
