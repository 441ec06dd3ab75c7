package fairshare_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/fairshare"
)

const (
	processors = 2
	capacity   = 32
	slice      = 10 * time.Millisecond // time slice of the Go scheduler

	cheap = 200 * time.Microsecond
	heavy = 20 * time.Millisecond
)

// machine runs requests on processors in arrival order. As in the Go scheduler, a request that works longer than a
// slice moves to the end of the queue.
type machine struct {
	turns      *fairshare.Turns
	processors chan struct{}
	active     atomic.Int64
	peak       atomic.Int64
	served     sync.Map // requests by client
}

func newMachine() *machine {
	return &machine{turns: fairshare.NewTurns(capacity, processors, fairshare.Patience{Wait: long}), processors: make(chan struct{}, processors)}
}

var lists = fairshare.Kind{Method: "GET", Route: "/{bucket}"}

func (m *machine) serve(t *testing.T, client string, kind fairshare.Kind, works, waits time.Duration) {
	turn, err := m.turns.Acquire(t.Context(), client, kind)
	if err != nil {
		t.Error(err)
		return
	}
	m.peak.Store(max(m.peak.Load(), m.active.Add(1)))
	for left := works; left > 0; left -= slice {
		m.processors <- struct{}{}
		time.Sleep(min(left, slice))
		<-m.processors
	}
	time.Sleep(waits)
	m.active.Add(-1)
	m.turns.Release(turn, works)
	n, _ := m.served.LoadOrStore(client, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

func (m *machine) count(client string) int64 {
	n, ok := m.served.Load(client)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

// attack sends requests back to back on several connections. works returns the work for the i-th request on a
// connection.
func (m *machine) attack(t *testing.T, client string, connections int, d time.Duration, works func(i int) time.Duration) *sync.WaitGroup {
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				m.serve(t, client, lists, works(i), 0)
			}
		})
	}
	return &all
}

func (m *machine) slowest(t *testing.T, client string, d time.Duration) (most time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
		start := time.Now()
		m.serve(t, client, fairshare.Kind{Method: "GET", Route: "/{bucket}/{key}"}, cheap, 0)
		most = max(most, time.Since(start))
	}
	return most
}

func always(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// TestTurnsByCost checks that a client's many expensive requests never delay another client by more than one of them,
// and that no processor is idle.
func TestTurnsByCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		const d = 10 * time.Second
		attack := m.attack(t, "greedy", 48, d, always(heavy))
		if most := m.slowest(t, "modest", d); most > heavy+cheap {
			t.Errorf("a cheap request took %v beside expensive ones of %v", most, heavy)
		}
		attack.Wait()
		if got, want := m.count("greedy"), int64(processors*d/heavy*98/100); got < want {
			t.Errorf("%d expensive requests, want %d: a processor was idle", got, want)
		}
		if s := m.turns.Stats(); s.Used != 0 || s.Waiting != 0 || s.Clients != 0 {
			t.Errorf("something is left: %+v", s)
		}
	})
}

// TestTurnsOfManyGreedyClients checks that a cheap request waits for at most four expensive requests per
// processor: two in progress, and two that got their turn earlier.
func TestTurnsOfManyGreedyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		const d = 5 * time.Second
		var attacks []*sync.WaitGroup
		for i := range 5 {
			attacks = append(attacks, m.attack(t, fmt.Sprint("greedy ", i), 20, d, always(heavy)))
		}
		if most, bound := m.slowest(t, "modest", d), 4*heavy+slice; most > bound {
			t.Errorf("a cheap request took %v, want at most %v", most, bound)
		}
		for i, a := range attacks {
			a.Wait()
			if got, want := m.count(fmt.Sprint("greedy ", i)), m.count("greedy 0"); got < want*9/10 || got > want*11/10 {
				t.Errorf("client %d has %d of its expensive requests served, client 0 %d", i, got, want)
			}
		}
	})
}

func TestTurnsSeeHiddenCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		const d = 10 * time.Second
		attack := m.attack(t, "greedy", 48, d, func(i int) time.Duration {
			if i%25 == 0 {
				return heavy
			}
			return cheap
		})
		if most := m.slowest(t, "modest", d); most > 3*heavy {
			t.Errorf("a cheap request took %v", most)
		}
		attack.Wait()
	})
}

// TestTurnsOfCheapRequests checks that requests which mostly wait for their commits run concurrently, up to the
// reserve.
func TestTurnsOfCheapRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 100 {
					m.serve(t, "busy", fairshare.Kind{Method: "PUT"}, cheap, 5*time.Millisecond)
				}
			})
		}
		all.Wait()
		if want := int64(capacity) - fairshare.Reserve(capacity); m.peak.Load() != want {
			t.Errorf("%d at once, want %d", m.peak.Load(), want)
		}
		// Rare outliers, e.g. caused by another process, do not change that.
		m.peak.Store(0)
		for range 64 {
			all.Go(func() {
				for i := range 1000 {
					works := cheap
					if i == 500 {
						works = 25 * cheap
					}
					m.serve(t, "busy", fairshare.Kind{Method: "PUT"}, works, 5*time.Millisecond)
				}
			})
		}
		all.Wait()
		if want := int64(capacity) - fairshare.Reserve(capacity); m.peak.Load() != want {
			t.Errorf("with outliers: %d at once, want %d", m.peak.Load(), want)
		}
	})
}

func TestTurnsDoNotStarve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		const d = 2 * time.Second
		var all []*sync.WaitGroup
		for i := range 40 {
			all = append(all, m.attack(t, fmt.Sprint("busy ", i), 4, d, always(cheap)))
		}
		all = append(all, m.attack(t, "expensive", 4, d, always(heavy)))
		for _, a := range all {
			a.Wait()
		}
		if n := m.count("expensive"); n < 10 {
			t.Errorf("%d expensive requests in %v", n, d)
		}
	})
}

func TestTurnsForgetCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		burst := func(works time.Duration) int64 {
			m.peak.Store(0)
			m.attack(t, "client", 48, 15*time.Second, always(works)).Wait()
			m.peak.Store(0)
			m.attack(t, "client", 48, time.Second/2, always(works)).Wait()
			return m.peak.Load()
		}
		if n := burst(heavy); n != 3 {
			t.Errorf("%d expensive requests at once, want 3", n)
		}
		if n := burst(cheap); n != 28 {
			t.Errorf("%d cheap requests at once, want 28", n)
		}
		time.Sleep(1000 * time.Hour) // the sums stay positive
		if n := burst(heavy); n != 3 {
			t.Errorf("%d expensive requests at once after a long pause, want 3", n)
		}
	})
}

// TestTurnsModel checks with random costs that all requests get a turn, the units are never exceeded, and an idle
// client gets a turn as soon as the running requests end.
func TestTurnsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		capacity, processors := rapid.Int64Range(1, 64).Draw(rt, "capacity"), rapid.IntRange(1, 40).Draw(rt, "processors")
		clients := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 30), 1, 6).Draw(rt, "milliseconds of the requests by client")
		synctest.Test(t, func(t *testing.T) {
			turns := fairshare.NewTurns(capacity, processors, fairshare.Patience{Wait: long})
			var all sync.WaitGroup
			var done, requests int64
			var mu sync.Mutex
			for i, costs := range clients {
				for _, ms := range costs {
					requests++
					all.Go(func() {
						turn, err := turns.Acquire(t.Context(), fmt.Sprint(i), fairshare.Kind{Route: fmt.Sprint(ms % 3)})
						if err != nil {
							t.Error(err)
							return
						}
						if s := turns.Stats(); s.Used > capacity || s.Used < 1 {
							t.Errorf("%d units of %d are used", s.Used, capacity)
						}
						time.Sleep(time.Duration(ms) * time.Millisecond)
						turns.Release(turn, time.Duration(ms)*time.Millisecond)
						mu.Lock()
						done++
						mu.Unlock()
					})
				}
			}
			all.Wait()
			if s := turns.Stats(); done != requests || s.Used != 0 || s.Waiting != 0 || s.Clients != 0 {
				t.Errorf("%d of %d requests, %+v", done, requests, s)
			}
		})
	})
}

func TestTurnsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := fairshare.NewTurns(1, 1, fairshare.Patience{Wait: time.Second})
		turn, err := turns.Acquire(t.Context(), "a", lists)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turns.Acquire(t.Context(), "b", lists); err == nil {
			t.Error("two turns of one")
		}
		turns.Release(turn, time.Second)
		turn, err = turns.Acquire(t.Context(), "b", lists)
		if err != nil {
			t.Fatal(err)
		}
		turns.Release(turn, time.Second)
		if s := turns.Stats(); s.Used != 0 || s.Clients != 0 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func BenchmarkTurns(b *testing.B) {
	turns := fairshare.NewTurns(capacity, processors, fairshare.Patience{Wait: long})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			turn, err := turns.Acquire(b.Context(), "client", lists)
			if err != nil {
				b.Fatal(err)
			}
			turns.Release(turn, cheap)
		}
	})
}

// TestTurnsOfHungDatabase checks that waits end early if the database hangs, but not if it is busy.
func TestTurnsOfHungDatabase(t *testing.T) {
	t.Parallel()
	for _, hung := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			turns := fairshare.NewTurns(1, 1, fairshare.Patience{Wait: 30 * time.Second, HungWait: 3 * time.Second, Hung: func() bool { return hung }})
			if _, err := turns.Acquire(t.Context(), "a", lists); err != nil {
				t.Fatal(err)
			}
			begun, want := time.Now(), 30*time.Second
			if hung {
				want = 3 * time.Second
			}
			_, err := turns.Acquire(t.Context(), "b", lists)
			if took := time.Since(begun).Round(time.Millisecond); took != want || !errors.Is(err, fairshare.ErrFull) {
				t.Errorf("hung %t: after %v: %v, want %v", hung, took, err, want)
			}
		})
	}
}
