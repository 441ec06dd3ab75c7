package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/fairshare"
	"holdfast/internal/web"
	"holdfast/internal/work"
)

// crowd sends requests to a service behind a gate. Each value in release ends one active request.
type crowd struct {
	gate    *web.Gate
	service web.Service
	handler http.Handler
	release chan struct{}
	clients atomic.Int64

	mu      sync.Mutex
	answers map[int]int // count by status
	retry   []int       // Retry-After of rejected requests
}

func newCrowd(places int, wait time.Duration) *crowd {
	c := &crowd{gate: web.NewGate(places, wait), release: make(chan struct{}), answers: map[int]int{}}
	c.service = service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		web.Identify(r, fmt.Sprint(c.clients.Add(1))) // a new client for each request
		if err := web.AcquireSlot(r); err != nil {
			return err
		}
		<-c.release
		return nil
	})
	c.open()
	return c
}

func (c *crowd) open() {
	c.handler = c.service.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: c.gate})
}

// send starts n requests and returns when each waits or has ended.
func (c *crowd) send(n int) { c.sendTo("/", n) }

func (c *crowd) sendTo(target string, n int) {
	for range n {
		go func() {
			w := ask(c.handler, http.MethodGet, target, nil)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answers[w.Code]++
			if w.Code == http.StatusServiceUnavailable {
				seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
				c.retry = append(c.retry, seconds)
			}
		}()
	}
	synctest.Wait()
}

func (c *crowd) expect(t *testing.T, ok, shed int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers[200] != ok || c.answers[503] != shed {
		t.Errorf("answers %v; want %d with 200 and %d rejected", c.answers, ok, shed)
	}
}

func (c *crowd) expectLoad(t *testing.T, load float64, backoff time.Duration) {
	t.Helper()
	if got := c.gate.Load(); got != load {
		t.Errorf("load %v, want %v", got, load)
	}
	if got := c.gate.Backoff(); got != backoff {
		t.Errorf("backoff %v, want %v", got, backoff)
	}
}

func TestGateShedsLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(4, time.Second)
		c.expectLoad(t, 0, 0)
		c.send(2)
		c.expectLoad(t, 0.5, 0)
		c.send(2)
		c.expectLoad(t, 1, time.Minute)
		c.send(4) // these wait
		c.expectLoad(t, 2, 10*time.Minute)
		c.expect(t, 0, 0)
		c.send(3) // more than may wait
		c.expect(t, 0, 3)
		if got, want := c.gate.Stats(), (web.GateStats{Slots: 4, Active: 4, Waiting: 4, Clients: 8, Shed: 3}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		c.expectLoad(t, 2, 10*time.Minute)

		c.release <- struct{}{}
		c.expect(t, 1, 3)
		c.expectLoad(t, 1.75, time.Minute+9*time.Minute*3/4)
		time.Sleep(time.Second) // in synctest: the waiting requests time out
		c.expect(t, 1, 6)
		c.expectLoad(t, 1, time.Minute)

		close(c.release)
		c.expect(t, 5, 6)
		c.expectLoad(t, 0, 0)
		if got, want := c.gate.Stats(), (web.GateStats{Slots: 4, Shed: 6}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for _, seconds := range c.retry {
			if seconds < 10 || seconds >= 20 {
				t.Errorf("Retry-After: %d", seconds)
			}
		}
	})
}

func TestGateOpensAfterPanic(t *testing.T) {
	t.Parallel()
	r := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		if err := web.AcquireSlot(r); err != nil {
			return err
		}
		panic("boom")
	})
	gate := web.NewGate(1, 0)
	h := r.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: gate})
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if w.Code != http.StatusInternalServerError {
			t.Errorf("status %d", w.Code)
		}
	}
	if gate.Load() != 0 {
		t.Errorf("load %v", gate.Load())
	}
}

func TestReleaseSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, outside := web.NewGate(1, time.Second), make(chan string)
		r := service(func(w http.ResponseWriter, req *http.Request, _ web.Address) error {
			if err := web.AcquireSlot(req); err != nil {
				return err
			}
			web.ReleaseSlot(req)
			web.ReleaseSlot(req)
			if <-outside == "done" {
				return nil
			}
			if err := web.AcquireSlot(req); err != nil {
				return err
			}
			<-outside
			return web.AcquireSlot(req)
		})
		c := &crowd{gate: gate, handler: r.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: gate}), answers: map[int]int{}}
		c.send(3)
		c.expectLoad(t, 0, 0)
		outside <- "in"
		c.send(0)
		c.expectLoad(t, 1, time.Minute)
		outside <- "in"
		c.send(0)
		c.expectLoad(t, 2, 10*time.Minute)
		time.Sleep(time.Second)
		c.expect(t, 0, 1)
		outside <- "done" // with or without a slot
		outside <- "done"
		c.expect(t, 2, 1)
		c.expectLoad(t, 0, 0)
		ask(service(func(w http.ResponseWriter, req *http.Request, _ web.Address) error {
			web.ReleaseSlot(req)
			return web.AcquireSlot(req)
		}).Handler(web.Options{Log: slog.New(slog.DiscardHandler)}), http.MethodGet, "/", nil)
	})
}

// A greedy client leaves slots for others. The response releases the slot.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{gate: web.NewGate(8, time.Second), release: make(chan struct{}), answers: map[int]int{}}
		c.handler = service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			web.Identify(r, r.URL.Query().Get("client"))
			if err := web.AcquireSlot(r); err != nil {
				return err
			}
			if r.URL.Path == "/answer" {
				w.WriteHeader(http.StatusOK)
			}
			<-c.release
			return nil
		}).Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: c.gate})
		c.sendTo("/?client=a", 20)
		want := web.GateStats{Slots: 8, Active: 7, Waiting: 8, Clients: 1, Shed: 5}
		if got := c.gate.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		c.sendTo("/?client=b", 1)
		if got := c.gate.Stats(); got.Active != 8 || got.Clients != 2 {
			t.Errorf("another client: %+v", got)
		}
		close(c.release)
		synctest.Wait()
		c.release = make(chan struct{})
		c.sendTo("/answer?client=a", 20)
		if got := c.gate.Stats(); got.Active != 0 || got.Waiting != 0 {
			t.Errorf("while the responses are sent: %+v", got)
		}
		close(c.release)
	})
}

func TestGateSharesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fairshare.NewTurns(4, 2, fairshare.Patience{Wait: time.Minute})
		release := make(chan struct{})
		var inside, done sync.Map
		s := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			web.Identify(r, r.URL.Path)
			if err := web.AcquireSlot(r); err != nil {
				return err
			}
			inside.Store(r, r.URL.Path)
			<-release
			return web.WithoutSlot(r, func() error { inside.Delete(r); done.Store(r, true); return nil })
		})
		s.Turns = turns
		gate := web.NewGate(64, time.Second)
		handler := s.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: gate})
		send := func(target string, n int) {
			for range n {
				go ask(handler, http.MethodGet, target, nil)
			}
			synctest.Wait()
		}
		count := func(of *sync.Map, path any) (n int) {
			of.Range(func(_, at any) bool {
				if at == path {
					n++
				}
				return true
			})
			return n
		}
		send("/greedy", 40)
		if n := count(&inside, "/greedy"); n != 3 {
			t.Errorf("%d of 4 turns for the only client, want 3", n)
		}
		send("/modest", 1)
		if n := count(&inside, "/modest"); n != 1 {
			t.Error("a new client has to wait")
		}
		if s := turns.Stats(); s.Used != 4 || s.Waiting != 37 || gate.Stats().Active != 41 {
			t.Errorf("%+v, and %d with a slot", s, gate.Stats().Active)
		}
		close(release)
		synctest.Wait()
		if s := turns.Stats(); s.Used != 0 || s.Waiting != 0 || gate.Stats().Active != 0 || count(&done, true) != 41 {
			t.Errorf("%+v, %d with a slot and %d done in the end", s, gate.Stats().Active, count(&done, true))
		}
	})
}

func TestGateYieldsTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fairshare.NewTurns(4, 2, fairshare.Patience{Wait: time.Minute})
		release := make(chan struct{})
		s := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			web.Identify(r, r.URL.Path)
			if err := web.AcquireSlot(r); err != nil {
				return err
			}
			if r.URL.Path == "/healthy" {
				return nil
			}
			work.Of(r.Context()).Yield()
			work.Of(r.Context()).Yield() // no effect
			<-release
			return nil
		})
		s.Turns = turns
		handler := s.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: web.NewGate(64, time.Second)})
		for i := range 40 {
			go ask(handler, http.MethodGet, "/hung"+strconv.Itoa(i), nil)
		}
		synctest.Wait()
		if s := turns.Stats(); s.Used != 0 || s.Waiting != 0 {
			t.Errorf("while all wait: %+v", s)
		}
		before := time.Now()
		if w := ask(handler, http.MethodGet, "/healthy", nil); w.Code != http.StatusOK || time.Since(before) != 0 {
			t.Errorf("%d after %v", w.Code, time.Since(before))
		}
		close(release)
		synctest.Wait()
		if s := turns.Stats(); s.Used != 0 || s.Waiting != 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestGateGivesSlotsBackWithoutATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(8, time.Second)
		c.service.Turns = fairshare.NewTurns(1, 2, fairshare.Patience{Wait: time.Minute})
		c.open()
		c.send(3)
		if n := c.gate.Stats().Active; n != 3 {
			t.Errorf("%d have a slot, want 3", n)
		}
		time.Sleep(time.Minute)
		c.expect(t, 0, 2)
		if n := c.gate.Stats().Active; n != 1 {
			t.Errorf("%d have a slot, want 1", n)
		}
		close(c.release)
		c.expect(t, 1, 2)
	})
}

// Long work counts against a client's turns, long waiting does not.
func TestGateWeighsWork(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"/works": 3, "/waits": 28} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { weighsWork(t, path, want) })
		})
	}
}

func weighsWork(t *testing.T, path string, want int) {
	var active, peak atomic.Int64
	s := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		web.Identify(r, "greedy")
		if err := web.AcquireSlot(r); err != nil {
			return err
		}
		peak.Store(max(peak.Load(), active.Add(1)))
		defer active.Add(-1)
		meter := work.Of(r.Context())
		if r.URL.Path == "/waits" {
			meter.Wait()
			defer meter.Resume()
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	s.Turns = fairshare.NewTurns(32, 2, fairshare.Patience{Wait: time.Minute})
	handler := s.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: web.NewGate(256, time.Minute)})
	ask(handler, http.MethodGet, path, nil) // so that the cost is known
	var all sync.WaitGroup
	for range 48 {
		all.Go(func() { ask(handler, http.MethodGet, path, nil) })
	}
	all.Wait()
	if peak.Load() != int64(want) {
		t.Errorf("%d at once, want %d", peak.Load(), want)
	}
	if s := s.Turns.Stats(); s.Used != 0 || s.Waiting != 0 {
		t.Errorf("something is left: %+v", s)
	}
}

// wrapping hides everything of a ResponseWriter but its interface, like a middleware that counts bytes.
type wrapping struct{ http.ResponseWriter }

// TestWrappedWriter puts other writers around the Mux's, and another context around the request's: tracing, a middleware
// and a handler may do so. The request still counts for slot, memory and client.
func TestWrappedWriter(t *testing.T) {
	t.Parallel()
	gate, memory := web.NewGate(2, time.Second), web.NewMemory(1<<20, 1, time.Second)
	const size = 300 << 10
	h := service(func(w http.ResponseWriter, req *http.Request, _ web.Address) error {
		req = req.WithContext(context.WithValue(req.Context(), wrapping{}, 1))
		web.Identify(req, "somebody")
		if err := errors.Join(web.AcquireSlot(req), web.ChargeMemory(req, 1000)); err != nil {
			return err
		}
		ip, ok := web.ClientIP(req)
		if s := gate.Stats(); s.Active != 1 || s.Clients != 1 || web.Client(req) != "somebody" || !ok || !ip.IsValid() {
			t.Errorf("%+v, client %q at %v", s, web.Client(req), ip)
		}
		if s := memory.Stats(); s.Used != 1000 || s.Clients != 1 {
			t.Errorf("memory before the body: %+v", s)
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return err
		}
		if s := memory.Stats(); s.Used < size {
			t.Errorf("memory after the body: %+v", s)
		}
		err := web.WithoutSlot(req, func() error {
			if s := gate.Stats(); s.Active != 0 {
				t.Errorf("without the slot: %+v", s)
			}
			return nil
		})
		web.ReleaseSlot(req)
		web.ReleaseMemory(req, 1000)
		if s := gate.Stats(); s.Active != 0 {
			t.Errorf("after the slot's release: %+v", s)
		}
		wrapping{w}.WriteHeader(http.StatusOK)
		return err
	}).Handler(web.Options{
		Log: slog.New(slog.DiscardHandler), Gate: gate, Memory: memory,
		Trace: func(w http.ResponseWriter, r *http.Request, _ string, next http.HandlerFunc) {
			next(wrapping{w}, r.WithContext(context.WithValue(r.Context(), wrapping{}, 2)))
		},
	})
	h = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrapping{w}, r) })
	}(h)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader(strings.Repeat("x", size))))
	if s := memory.Stats(); answer.Code != http.StatusOK || s.Used != 0 {
		t.Errorf("status %d, memory %+v", answer.Code, s)
	}
}
