package guest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/workload/guest"
	"holdfast/test/fault/harness"
)

type guestUpstream struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]time.Time
	begun chan string // receives each called property

	hold  atomic.Pointer[chan struct{}] // blocks calls until closed; nil if calls do not wait
	fails atomic.Bool
}

func newGuestUpstream(t *testing.T) *guestUpstream {
	t.Helper()
	u := &guestUpstream{calls: map[string][]time.Time{}, begun: make(chan string, 100_000)}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.release()
		u.Close()
	})
	return u
}

func (u *guestUpstream) holdCalls() {
	c := make(chan struct{})
	u.hold.Store(&c)
}

func (u *guestUpstream) release() {
	if c := u.hold.Swap(nil); c != nil {
		close(*c)
	}
}

func (u *guestUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	property := strings.TrimPrefix(r.URL.Path, "/")
	u.mu.Lock()
	u.calls[property] = append(u.calls[property], time.Now())
	u.mu.Unlock()
	u.begun <- property
	if c := u.hold.Load(); c != nil {
		select {
		case <-*c:
		case <-r.Context().Done():
			return
		}
	}
	if u.fails.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"propertyId":"%s","itemId":"%s","tenantId":"%s","name":"%s"}`, property, property, guest.Tenant, property)
}

func (u *guestUpstream) times(property string) []time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[property]
}

func (u *guestUpstream) vars(timeout string) []string {
	return append(siteOn(true).Upstream(u.URL),
		"HOLDFAST_GUEST__UPSTREAMS__TIMEOUT="+timeout, "HOLDFAST_GUEST__HOT_TIMEOUT=250ms",
		"HOLDFAST_SERVER__MAX_REQUESTS=20000")
}

type reading struct {
	status int
	cache  string
	body   string
}

func (g *guests) read(server int, property string) reading {
	v := g.browser("", "")
	status, h, body := v.send(server, http.MethodGet, g.site().Page+property, "", "")
	return reading{status, h.Get("X-Cache"), body}
}

func (g *guests) readMany(n int, property string) []reading {
	all := make([]reading, n)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { all[i] = g.read(i, property) })
	}
	wait.Wait()
	return all
}

// expireView makes a response in Redis stale, but not expired.
func (g *guests) expireView(property string) {
	g.t.Helper()
	if out := g.redis.Must(g.t, "PEXPIRE", "prod:bff-consumer:{cache:"+g.site().Cache+":"+property+":en:EUR}", "500000"); !strings.Contains(out, "1") {
		g.t.Fatalf("the answer is not in Redis: %s", out)
	}
}

// TestGuestUpstreamCalledOnce checks that many concurrent readers at two processes cause a single call for an uncached
// key.
func TestGuestUpstreamCalledOnce(t *testing.T) {
	t.Parallel()
	u := newGuestUpstream(t)
	g := newGuests(t, 2, u.vars("4s")...)
	readers := int(harness.Number(t, "FAULT_READERS", 200))
	for round := range int(min(10, harness.Number(t, "FAULT_ROUNDS", 1))) {
		property := g.site().Item(round)
		u.holdCalls()
		done := make(chan []reading)
		go func() { done <- g.readMany(readers, property) }()
		<-u.begun
		u.release()
		answers := map[string]bool{}
		for _, r := range <-done {
			if answers[r.body] = true; r.status != http.StatusOK || !strings.Contains(r.body, property) {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		if n := len(u.times(property)); n < 1 || n > 1+g.alone() || len(answers) != 1 {
			t.Errorf("%d readers made %d calls and got %d different answers", readers, n, len(answers))
		}
	}
}

const degradedCache = `holdfast_guest_hot_degraded_total{operation="cache"}`

// alone returns how often processes cached without Redis. On a busy machine Redis may time out, and then each process
// calls the upstream.
func (g *guests) alone() (n int) {
	g.t.Helper()
	for i := range g.servers {
		n += int(g.metric(i, degradedCache))
	}
	return n
}

// TestGuestSlowUpstream checks that a call is abandoned at its deadline: readers get 503, and the next call comes only
// later. If Redis contains a response, readers get it instead.
func TestGuestSlowUpstream(t *testing.T) {
	t.Parallel()
	u := newGuestUpstream(t)
	g := newGuests(t, 2, u.vars("300ms")...)
	cold, known := g.site().Item(1), g.site().Item(2)
	g.await("an answer", func() bool { return g.read(0, known).status == http.StatusOK })
	u.holdCalls()
	start := time.Now()
	for _, r := range g.readMany(40, cold) {
		if r.status != http.StatusServiceUnavailable {
			t.Fatalf("%+v", r)
		}
	}
	if n, most := len(u.times(cold)), 1+int(time.Since(start)/time.Second)+g.alone(); n > most {
		t.Errorf("%d calls in %s", n, time.Since(start))
	}
	// The processes use their copies for at most 5 s.
	g.expireView(known)
	g.await("a stale answer", func() bool { return g.read(0, known).cache == "STALE" && g.read(1, known).cache == "STALE" })
}

func (g *guests) await(what string, fn func() bool) {
	g.t.Helper()
	for start := time.Now(); !fn(); time.Sleep(100 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			g.t.Fatalf("timeout: want %s", what)
		}
	}
}

// TestGuestFailingUpstream checks that a failing upstream is called at most once a second, and that readers get the
// last response.
func TestGuestFailingUpstream(t *testing.T) {
	t.Parallel()
	u := newGuestUpstream(t)
	g := newGuests(t, 2, u.vars("4s")...)
	known, cold := g.site().Item(1), g.site().Item(2)
	first := g.read(0, known)
	if first.status != http.StatusOK || first.cache != "MISS" {
		t.Fatalf("%+v", first)
	}
	u.fails.Store(true)
	g.expireView(known)
	g.await("a stale answer", func() bool { return g.read(0, known).cache == "STALE" && g.read(1, known).cache == "STALE" })
	calls := len(u.times(known))
	for start := time.Now(); len(u.times(known)) < calls+2; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the upstream is not called again")
		}
		for _, r := range g.readMany(10, known) {
			if r.status == http.StatusServiceUnavailable && g.alone() > 0 {
				continue // the process could not read the last response from Redis in time
			}
			if r.status != http.StatusOK || r.cache != "STALE" || r.body != first.body {
				t.Fatalf("%+v, want %s", r, first.body)
			}
		}
		for _, r := range g.readMany(4, cold) {
			if r.status != http.StatusServiceUnavailable {
				t.Fatalf("%+v", r)
			}
		}
	}
	for property, times := range map[string][]time.Time{known: u.times(known)[1:], cold: u.times(cold)} { // the first call succeeded
		for i := 1; i < len(times) && g.alone() == 0; i++ {
			// The next call comes a second after the previous response.
			if d := times[i].Sub(times[i-1]); d < 990*time.Millisecond {
				t.Errorf("%s: calls %d and %d are %s apart", property, i, i+1, d)
			}
		}
	}
	u.fails.Store(false)
	g.await("a fresh answer", func() bool { return g.read(0, known).cache != "STALE" })
}

// TestGuestUpstreamCallerKilled kills the process that calls the upstream. Another process must take over when the
// lock expires.
func TestGuestUpstreamCallerKilled(t *testing.T) {
	t.Parallel()
	u := newGuestUpstream(t)
	g := newGuests(t, 2, u.vars("4s")...)
	property := g.site().Item(1)
	u.holdCalls()
	leader := make(chan struct{})
	go func() {
		defer close(leader)
		if a, err := g.browser("", "").ask(0, guest.Call{Method: http.MethodGet, Path: g.site().Page + property}); err == nil {
			t.Errorf("the killed process answered: %d", a.Status)
		}
	}()
	<-u.begun
	g.servers[0].Kill()
	<-leader
	u.release()
	var last reading
	g.await("a new leader", func() bool {
		v := g.browser("", "")
		status, h, body := v.send(1, http.MethodGet, g.site().Page+property, "", "")
		last = reading{status, h.Get("X-Cache"), body}
		return status == http.StatusOK
	})
	var hotel struct{ PropertyID string }
	if err := json.Unmarshal([]byte(last.body), &hotel); err != nil || hotel.PropertyID != property {
		t.Errorf("%+v: %v", last, err)
	}
	if n := len(u.times(property)); n < 2 || n > 2+int(g.metric(1, degradedCache)) {
		t.Errorf("%d calls", n)
	}
}

// TestGuestUpstreamLockOwner checks that a process whose lock has passed to another process does not release it,
// whether its call succeeds or fails, and does not store the call's result.
func TestGuestUpstreamLockOwner(t *testing.T) {
	t.Parallel()
	u := newGuestUpstream(t)
	g := newGuests(t, 1, u.vars("4s")...)
	for n, fails := range []bool{false, true} {
		property := g.site().Item(n)
		key := "{cache:" + g.site().Cache + ":" + property + ":en:EUR}"
		u.holdCalls()
		done := make(chan reading)
		go func() { done <- g.read(0, property) }()
		<-u.begun
		g.redis.Must(t, "SET", "prod:bff-consumer:lock:"+key, "another", "PX", "600000")
		u.fails.Store(fails)
		u.release()
		if r := <-done; !fails && (r.status != http.StatusOK || r.cache != "BYPASS") || fails && r.status != http.StatusServiceUnavailable {
			t.Errorf("fails %v: %+v", fails, r)
		}
		if owner := g.redis.Must(t, "GET", "prod:bff-consumer:lock:"+key); !strings.Contains(owner, "another") {
			t.Errorf("fails %v: the lock of another process is %q", fails, owner)
		}
		if value := g.redis.Must(t, "EXISTS", "prod:bff-consumer:"+key); !strings.Contains(value, "0") {
			t.Errorf("fails %v: the answer was stored without the lock", fails)
		}
	}
}
