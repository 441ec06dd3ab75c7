package syncstorage_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// metas is a store with only meta/global records, of the users 1 to n, and a note about a comparison. It fails or is
// interrupted wherever fault says so.
type metas struct {
	ss.Store
	n int64

	mu      sync.Mutex
	changed []int64 // UIDs in the order of the writes
	at      []time.Time
	note    string
	fault   func(step string) error
}

func newMetas(n int64) *metas { return &metas{n: n, fault: func(string) error { return nil }} }

func (m *metas) Owners(_ context.Context, after ss.Owner, n int) (all []ss.Owner, _ error) {
	for uid := after.UID + 1; uid <= m.n && len(all) < n; uid++ {
		all = append(all, ss.Owner{UID: uid})
	}
	return all, m.failure("owners")
}

func (m *metas) Get(context.Context, ss.Owner, ss.Request, string) (ss.BSO, error) {
	return ss.BSO{Payload: []byte(`{"engines":{"tabs":{"syncID":"AAAAAAAAAAAA"}}}`), Modified: 10}, m.failure("get")
}

// failure locks, because a test changes fault while a server runs.
func (m *metas) failure(step string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fault(step)
}

// failIf replaces fault.
func (m *metas) failIf(fault func(step string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// never is a fault that does not happen.
func never(string) error { return nil }

// uids returns the users that were changed.
func (m *metas) uids() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.changed)
}

func (m *metas) Put(_ context.Context, o ss.Owner, _ ss.Write, _ ss.Update) (ss.Written, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault("put"); err != nil {
		return ss.Written{}, err
	}
	m.changed, m.at = append(m.changed, o.UID), append(m.at, time.Now())
	return ss.Written{}, nil
}

func (m *metas) Load(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.note, m.fault("load")
}

func (m *metas) Swap(_ context.Context, was, next string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault("swap"); err != nil || m.note != was {
		return false, err
	}
	m.note = next
	return true, m.fault("swapped")
}

// process returns a comparer with a rate, like another process on the same database.
func (m *metas) process(t *testing.T, rate int) *ss.Comparer {
	t.Helper()
	c := ss.DefaultConfig()
	c.CompareRate = rate
	s, err := ss.NewService(ss.Options{Store: m, Config: c, Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	return ss.NewComparer(s, m, clock.System, slog.New(slog.DiscardHandler))
}

func everyone(n int64) (all []int64) {
	for uid := range n {
		all = append(all, uid+1)
	}
	return all
}

// TestCompareRate checks that servers that share a database change only compare_rate users per minute together, and each
// user once.
func TestCompareRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{6, 60, 600, 1000} {
		synctest.Test(t, func(t *testing.T) {
			m := newMetas(int64(3*rate) + 1)
			ctx, end := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { m.process(t, rate).Run(ctx) })
			}
			synctest.Wait()
			if len(m.uids()) != 0 {
				t.Errorf("changed %v before a comparison began", m.uids())
			}
			begun := time.Now()
			if err := m.process(t, rate).Begin(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			end()
			all.Wait()
			if !slices.Equal(m.uids(), everyone(m.n)) {
				t.Fatalf("changed %d of %d users: %v", len(m.uids()), m.n, m.uids())
			}
			// The servers notice the comparison within a minute. In no minute more users than the rate and one step.
			if took := m.at[len(m.at)-1].Sub(begun); took > 5*time.Minute {
				t.Errorf("rate %d: took %s", rate, took)
			}
			for i := rate + max(1, rate/60); i < len(m.at); i++ {
				if between := m.at[i].Sub(m.at[i-rate-max(1, rate/60)]); between < time.Minute-time.Second {
					t.Fatalf("rate %d: %d users in %s", rate, rate+1, between)
				}
			}
		})
	}
}

// TestCompareContinues kills a process at each of its calls to the database, before and after the call takes effect.
// Another process then finishes the comparison: each user is changed, and at most the users of a step twice.
func TestCompareContinues(t *testing.T) {
	t.Parallel()
	killed := errcode.New(errcode.Internal, "killed")
	const users, rate, step = 25, 600, 10
	for kill, isOver := 1, false; !isOver; kill++ {
		synctest.Test(t, func(t *testing.T) {
			m := newMetas(users)
			if err := m.process(t, rate).Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			calls := 0
			m.failIf(func(string) error {
				if calls++; calls >= kill {
					return killed
				}
				return nil
			})
			_, err := m.process(t, rate).RunOnce(t.Context(), func(ss.Comparison) {})
			isOver = err == nil
			m.failIf(never)
			latest, err := m.process(t, rate).RunOnce(t.Context(), func(ss.Comparison) {})
			if err != nil || latest.IsRunning() || latest.Changed != users {
				t.Errorf("killed at call %d: the comparison is %+v, %v", kill, latest, err)
			}
			distinct := slices.Compact(slices.Sorted(slices.Values(m.changed)))
			if !slices.Equal(distinct, everyone(users)) || len(m.changed) > users+step {
				t.Errorf("killed at call %d: changed %v", kill, m.changed)
			}
		})
		if kill > 500 {
			t.Fatal("it never ends")
		}
	}
}

// TestCompareWaits checks that a server goes on by itself after the database refused writes, as a read-only service does,
// and after its clock was set back; that Stop ends a comparison; and that Begin starts again with the first user.
func TestCompareWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMetas(30)
		ctx, end := context.WithCancel(t.Context())
		c := m.process(t, 600)
		if _, err := c.Stop(ctx); !errcode.Is(err, errcode.Conflict) {
			t.Errorf("Stop without a comparison: %v", err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		begin := func() {
			t.Helper()
			if err := c.Begin(ctx); err != nil {
				t.Fatal(err)
			}
		}
		m.failIf(func(step string) error {
			if step == "put" {
				return errcode.New(errcode.Unavailable, "the service is read-only")
			}
			return nil
		})
		begin()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(m.uids()) != 0 {
			t.Fatalf("changed %v in a read-only service", m.uids())
		}
		m.failIf(never)
		time.Sleep(time.Minute)
		if synctest.Wait(); !slices.Equal(m.uids(), everyone(30)) {
			t.Fatalf("changed %v after the service accepted writes", m.uids())
		}
		m.failIf(func(step string) error {
			if step == "put" && len(m.changed)%30 == 5 {
				return errcode.New(errcode.Conflict, "the record changes all the time")
			}
			return nil
		})
		begin()
		time.Sleep(time.Hour)
		synctest.Wait()
		if latest, err := c.Latest(ctx); latest.Changed+latest.Failed != 30 || latest.Failed == 0 || latest.IsRunning() || err != nil {
			t.Fatalf("after failures for some users: %+v %v", latest, err)
		}
		m.failIf(never)
		m.mu.Lock()
		m.changed = everyone(30)
		m.mu.Unlock()
		begin()
		synctest.Wait() // a step of ten
		if _, err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); len(m.uids()) != 40 {
			t.Errorf("%d users were changed, want 30 and 10 before the stop", len(m.uids()))
		}
		// As a process with a clock that is ahead by a year left it.
		m.mu.Lock()
		m.note = `{"begun":"2030-01-01T00:00:00Z","next":"2031-01-01T00:00:00Z","after":{"UID":20}}`
		m.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if synctest.Wait(); !slices.Equal(m.uids()[40:], everyone(30)[20:]) {
			t.Errorf("after the clock was set back: %v", m.uids()[40:])
		}
		m.mu.Lock()
		m.note = "not a note"
		m.mu.Unlock()
		begin()
		time.Sleep(time.Minute)
		if synctest.Wait(); len(m.uids()) != 80 {
			t.Errorf("an invalid note was not replaced: %d users were changed", len(m.uids()))
		}
		end()
		<-ended
	})
}
