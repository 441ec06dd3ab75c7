package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/buckets"
)

type leases struct {
	Store
	mu      sync.Mutex
	has     buckets.Lease
	expires time.Time
	down    atomic.Bool
}

func (s *leases) Lease(_ context.Context, l buckets.Lease) (buckets.Lease, error) {
	if s.down.Load() {
		return buckets.Lease{}, errors.New("down")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.expires); s.has.Holder != l.Holder && left > 0 {
		s.has.Left = left
		return s.has, nil
	}
	s.has, s.expires = l, time.Now().Add(l.Left)
	return l, nil
}

func (s *leases) EndLease(_ context.Context, _, holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has.Holder == holder {
		s.expires = time.Time{}
	}
	return nil
}

func leasing(s *leases, folder string) *Service {
	return NewService(ServiceOptions{Options: Options{Store: s, Folder: folder}, Log: slog.New(slog.DiscardHandler)})
}

func ignore(string) {}

// TestLeaseOfKilled checks that a killed process's lease can be taken immediately in its data folder, and elsewhere
// when it expires.
func TestLeaseOfKilled(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &leases{}
		in, elsewhere := leasing(s, folder), leasing(s, other)
		var said strings.Builder
		say := func(text string) { said.WriteString(text) }
		killed, err := newLease(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.takeLease(t.Context(), killed, ignore); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ran := 0
		run := func(context.Context) error { ran++; return nil }
		if err := in.leased(t.Context(), say, run); err != nil || time.Since(began) > 0 || said.Len() > 0 {
			t.Errorf("in the same folder: %v after %s, %s", err, time.Since(began), said.String())
		}
		if err := in.takeLease(t.Context(), killed, ignore); err != nil {
			t.Fatal(err)
		}
		err = elsewhere.leased(t.Context(), say, run)
		if waited := time.Since(began); err != nil || waited < leaseTime || waited > leaseTime+time.Second || !strings.Contains(said.String(), "until its lease expires") {
			t.Errorf("in another folder: %v after %s, %s", err, waited, said.String())
		}
		if ran != 2 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

// TestLeaseOfRunning checks that other processes fail within seconds, and can take the lease after its release.
func TestLeaseOfRunning(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &leases{}
		in, elsewhere := leasing(s, folder), leasing(s, other)
		stop, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- in.leased(t.Context(), ignore, func(context.Context) error { <-stop; return nil })
		}()
		time.Sleep(10 * leaseTime)
		began := time.Now()
		host, _ := os.Hostname()
		err := elsewhere.leased(t.Context(), ignore, func(context.Context) error { t.Error("it ran"); return nil })
		if waited := time.Since(began); err == nil || !strings.Contains(err.Error(), " on "+host) || waited > leasePoll+time.Second {
			t.Errorf("%v after %s", err, waited)
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		began = time.Now()
		if err := elsewhere.leased(t.Context(), ignore, func(context.Context) error { return nil }); err != nil || time.Since(began) > 0 {
			t.Errorf("after the end: %v after %s", err, time.Since(began))
		}
	})
}

func TestLeaseLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*leases){
		"the database is unavailable": func(s *leases) { s.down.Store(true) },
		"another process has it": func(s *leases) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.has.Holder, s.expires = "other", time.Now().Add(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := &leases{}
				began := time.Now()
				err := leasing(s, folder).leased(t.Context(), ignore, func(ctx context.Context) error {
					lose(s)
					<-ctx.Done()
					return ctx.Err()
				})
				if waited := time.Since(began); !errors.Is(err, errLeaseLost) || waited > leaseTime+leasePoll {
					t.Errorf("%v after %s", err, waited)
				}
			})
		})
	}
}
