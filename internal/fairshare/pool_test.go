package fairshare_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/fairshare"
)

// long does not end during a test.
const long = time.Hour

func pool(capacity, reserve int64, waiting int) *fairshare.Pool {
	return fairshare.NewPool(fairshare.Options{Capacity: capacity, Reserve: reserve, Waiting: waiting, Wait: long})
}

func most(p *fairshare.Pool, name string) (n int) {
	for p.TryAcquire(name, 1) {
		n++
	}
	return n
}

func TestShares(t *testing.T) {
	t.Parallel()
	p := pool(16, 2, 0)
	for _, step := range []struct {
		client string
		want   int
	}{
		{"a", 14}, // all but the reserve
		{"b", 2}, {"a", 0},
		{"c", 0},
	} {
		if got := most(p, step.client); got != step.want {
			t.Fatalf("%s got %d, want %d", step.client, got, step.want)
		}
	}
	p.Release("a", 4) // still above its share
	if got := most(p, "a"); got != 2 {
		t.Errorf("above its share and outside the reserve: %d", got)
	}
	if got := most(p, "b"); got != 2 {
		t.Errorf("below its share: %d", got)
	}
	p.Release("a", 12)
	if got := most(p, "b"); got != 10 {
		t.Errorf("alone again: %d", got)
	}
}

// TestLargeRequest checks that a client without units may take more than its share, up to the capacity.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	p := pool(10, 2, 1)
	if !p.TryAcquire("a", 1) || !p.TryAcquire("b", 9) {
		t.Error("refused")
	}
	if err := p.Acquire(t.Context(), "c", 11); !errors.Is(err, fairshare.ErrFull) {
		t.Errorf("more than the capacity: %v", err)
	}
	if s := p.Stats(); s.Used != 10 || s.Clients != 2 || s.Waiting != 0 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
}

// wait starts an acquisition in a synctest bubble and returns when it waits or has ended.
func wait(t *testing.T, p *fairshare.Pool, name string, n int64, got chan<- string) {
	t.Helper()
	go func() {
		if err := p.Acquire(t.Context(), name, n); err == nil {
			got <- name
		} else {
			got <- name + " refused"
		}
	}()
	synctest.Wait()
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, turns)
}

func turns(t *testing.T) {
	p := pool(8, 1, 10)
	most(p, "a")
	p.TryAcquire("b", 1)
	got := make(chan string, 3)
	wait(t, p, "a", 1, got)
	wait(t, p, "b", 1, got)
	wait(t, p, "c", 1, got)
	for _, want := range []string{"c", "b"} {
		p.Release("a", 1)
		if name := <-got; name != want {
			t.Fatalf("%s, want %s", name, want)
		}
	}
	if s := p.Stats(); s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	p.Release("b", 2)
	if name := <-got; name != "a" {
		t.Errorf("%s, want a", name)
	}
}

func TestWaitingIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, waitingIsShared)
}

func waitingIsShared(t *testing.T) {
	p := pool(2, 0, 3)
	p.TryAcquire("a", 2)
	got := make(chan string, 10)
	for range 3 {
		wait(t, p, "a", 1, got)
	}
	wait(t, p, "b", 1, got)
	if name := <-got; name != "a refused" {
		t.Errorf("%s, want the newest of a refused", name)
	}
	p.Release("a", 1)
	if name := <-got; name != "b" {
		t.Errorf("%s, want b", name)
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	p := fairshare.NewPool(fairshare.Options{Capacity: 1, Waiting: 1, Wait: time.Millisecond})
	p.TryAcquire("a", 1)
	if err := p.Acquire(t.Context(), "b", 1); !errors.Is(err, fairshare.ErrFull) {
		t.Errorf("got %v", err)
	}
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := p.Acquire(ctx, "b", 1); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	p.Release("a", 1)
	if s := p.Stats(); s.Used != 0 || s.Clients != 0 || s.Waiting != 0 {
		t.Errorf("something is left: %+v", s)
	}
}

// TestPoolModel checks after random operations that a pool stays within its capacity, keeps no state for idle clients,
// gives no reserved units to clients above their share, and lets nobody wait for free units.
func TestPoolModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := poolModel{capacity: rapid.Int64Range(1, 30).Draw(rt, "capacity"), held: map[string]int64{}}
		m.reserve = rapid.Int64Range(0, m.capacity-1).Draw(rt, "reserve")
		m.pool = pool(m.capacity, m.reserve, rapid.IntRange(0, 5).Draw(rt, "waiting"))
		rt.Repeat(map[string]func(*rapid.T){"take": m.take, "give back": m.giveBack, "move": m.move, "resize": m.resize, "": m.check})
	})
}

type poolModel struct {
	pool              *fairshare.Pool
	capacity, reserve int64
	held              map[string]int64
	used              int64
}

var modelClients = rapid.SampledFrom([]string{"a", "b", "c", "d"})

func (m *poolModel) take(rt *rapid.T) {
	name, n := modelClients.Draw(rt, "client"), rapid.Int64Range(1, m.capacity+1).Draw(rt, "n")
	clients, held := len(m.held), m.held[name]
	if held == 0 {
		clients++
	}
	fits := m.used+n <= m.capacity &&
		(held == 0 || held+n <= min(m.capacity/int64(clients), m.capacity-m.reserve) || m.used+n <= m.capacity-m.reserve)
	if got := m.pool.TryAcquire(name, n); got != fits {
		rt.Fatalf("%d for %s, which has %d: %t", n, name, held, got)
	}
	if fits {
		m.held[name] += n
		m.used += n
	}
}

func (m *poolModel) holder(rt *rapid.T) string {
	if len(m.held) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.held))).Draw(rt, "holder")
}

func (m *poolModel) less(name string, n int64) {
	if m.held[name] -= n; m.held[name] == 0 {
		delete(m.held, name)
	}
}

func (m *poolModel) giveBack(rt *rapid.T) {
	name := m.holder(rt)
	if name == "" {
		return
	}
	n := rapid.Int64Range(1, m.held[name]).Draw(rt, "n")
	m.pool.Release(name, n)
	m.less(name, n)
	m.used -= n
}

func (m *poolModel) move(rt *rapid.T) {
	name := m.holder(rt)
	if name == "" {
		return
	}
	to, n := modelClients.Draw(rt, "to"), rapid.Int64Range(0, m.held[name]).Draw(rt, "n")
	m.pool.Move(name, to, n)
	m.less(name, n)
	if n > 0 {
		m.held[to] += n
	}
}

func (m *poolModel) resize(rt *rapid.T) {
	m.capacity = rapid.Int64Range(1, 30).Draw(rt, "capacity")
	m.reserve = fairshare.Reserve(m.capacity)
	m.pool.Resize(m.capacity, 0, long)
}

func (m *poolModel) check(rt *rapid.T) {
	if s := m.pool.Stats(); s.Used != m.used || s.Clients != len(m.held) || s.Waiting != 0 {
		rt.Fatalf("%+v, want %d used by %v", s, m.used, m.held)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, resize)
}

func resize(t *testing.T) {
	p := pool(4, 0, 10)
	p.TryAcquire("a", 4)
	got := make(chan string, 10)
	for _, name := range []string{"b", "c", "d"} {
		wait(t, p, name, 3, got)
	}
	p.Resize(8, 10, long)
	if name := <-got; name != "b" {
		t.Errorf("%s, want b", name)
	}
	p.Resize(3, 1, long)
	if name := <-got; name != "d refused" {
		t.Errorf("%s, want the newest refused", name)
	}
	if s := p.Stats(); s.Capacity != 3 || s.Used != 7 || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	wait(t, p, "e", 4, got)
	if name := <-got; name != "e refused" {
		t.Errorf("%s, want e refused: it is too large", name)
	}
	p.Release("a", 4)
	synctest.Wait()
	if s := p.Stats(); s.Used != 3 || s.Waiting != 1 {
		t.Errorf("c has to wait: %+v", s)
	}
	p.Resize(2, 1, long)
	if name := <-got; name != "c refused" {
		t.Errorf("%s, want c refused: it will never fit", name)
	}
	p.Release("b", 3)
	p.Resize(2, 1, time.Second)
	p.TryAcquire("a", 2)
	wait(t, p, "b", 1, got)
	time.Sleep(time.Second)
	if name := <-got; name != "b refused" {
		t.Errorf("%s, want b refused after the new wait", name)
	}
}

func TestResizeUnderLoad(t *testing.T) {
	t.Parallel()
	p := pool(10, 2, 1000)
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			for range 500 {
				if err := p.Acquire(t.Context(), fmt.Sprint(c), int64(1+c%3)); err != nil {
					t.Error(err)
					return
				}
				p.Load()
				p.Release(fmt.Sprint(c), int64(1+c%3))
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for i := int64(0); ; i++ {
		select {
		case <-done:
			if s := p.Stats(); s.Used != 0 || s.Clients != 0 || s.Waiting != 0 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
			return
		default:
			p.Resize(3+i%20, 1000, long)
		}
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	p := pool(1, 0, 0)
	failure := errors.New("failure")
	if err := p.Do(t.Context(), "a", func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = p.Do(t.Context(), "a", func() error { panic("bug") })
		t.Error("the panic is lost")
	}()
	if s := p.Stats(); s.Used != 0 || s.Clients != 0 {
		t.Errorf("something is left: %+v", s)
	}
	if err := (*fairshare.Pool)(nil).Do(t.Context(), "a", func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("without a pool: %v", err)
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	p := pool(10, 2, 1000)
	var all sync.WaitGroup
	var mu sync.Mutex
	var inside int64
	for c := range 8 {
		for i := range 8 {
			all.Go(func() {
				name, n := fmt.Sprint(c), int64(1+(c+i)%4)
				for range 200 {
					if err := p.Acquire(t.Context(), name, n); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if inside += n; inside > 10 {
						t.Errorf("%d of 10", inside)
					}
					mu.Unlock()
					mu.Lock()
					inside -= n
					mu.Unlock()
					p.Release(name, n)
				}
			})
		}
	}
	all.Wait()
	if s := p.Stats(); s.Used != 0 || s.Clients != 0 || s.Waiting != 0 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkAcquire(b *testing.B) {
	p := pool(256, 32, 256)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := p.Acquire(b.Context(), "client", 1); err != nil {
				b.Fatal(err)
			}
			p.Release("client", 1)
		}
	})
}
