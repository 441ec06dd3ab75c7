package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/testdb"
)

func addTo(key ext.Key) ext.Op {
	op := putOf(key)
	op.Keep = true
	op.Revise = func(before canonjson.Value) (canonjson.Value, canonjson.Number, error) {
		return (&canonjson.Increment{By: "1", Create: true}).Apply(before, ext.MaxValueBytes)
	}
	return op
}

// TestTwoProcesses runs increments and puts of two processes on one database. No sum may be lost or returned twice,
// and no write may fail because of another.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	stores := []*postgres.Store{open(t, pgdb.Options{URL: url, MaxConns: 4}), open(t, pgdb.Options{URL: url, MaxConns: 4})}
	const writers, each = 8, 15
	var (
		mu   sync.Mutex
		sums = map[canonjson.Number]int{}
	)
	errs := testdb.Concurrently(2*writers, func(i int) error {
		s := stores[i%2]
		for n := range each {
			w := write(addTo("n"), addTo("m"))
			if n%3 == 0 {
				w.Ops = append(w.Ops, putOf(ext.Key(fmt.Sprint(i))))
			}
			a, err := s.Apply(t.Context(), install, w)
			if err != nil {
				return err
			}
			mu.Lock()
			sums[a.Items[0].Sum]++
			mu.Unlock()
			if err := apply(t, s, write(putOf("other"))); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for n := range 2 * writers * each {
		if sum := canonjson.Number(fmt.Sprint(n + 1)); sums[sum] != 1 {
			t.Errorf("the sum %s was returned %d times", sum, sums[sum])
		}
	}
	if r, err := stores[0].Get(t.Context(), install, "toys", "m", start); err != nil || string(r.Value) != fmt.Sprint(2*writers*each) {
		t.Errorf("the other counter is %+v, %v", r, err)
	}
	if audit, err := stores[0].Audit(t.Context(), install); err != nil || !audit.Right() {
		t.Errorf("the counters are %+v, %v", audit, err)
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	var (
		mu    sync.Mutex
		calls = map[string]int{}
	)
	url := testdb.PostgresDatabase(t)
	s := open(t, pgdb.Options{URL: url, MaxConns: 4, Observe: func(name string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		calls[name]++
	}})
	locks := testdb.NewLocks(t, url)
	if err := apply(t, s, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	const writers = 20
	locks.Exec(t, `BEGIN`)
	locks.Exec(t, holdInstall)
	var (
		wg      sync.WaitGroup
		answers [writers]ext.Applied
		errs    [writers]error
	)
	for i := range writers {
		wg.Go(func() {
			w := write(addTo("n"))
			w.IdempotencyKey = &ext.IdempotencyKey{Key: fmt.Sprint(i)}
			w.Now += ext.Moment(i % 3)
			switch i {
			case 10:
				w.Ops[0].Precondition.Revision = ext.Some[ext.Revision](1 << 40)
			case 11:
				w.Ops[0].Schema = 7
			case 12:
				w.Ops[0].Revise = func(canonjson.Value) (canonjson.Value, canonjson.Number, error) { return "", "", ext.ErrNoRecord }
			}
			answers[i], errs[i] = s.Apply(t.Context(), install, w)
		})
		if i == 0 {
			locks.Waiting(t, 1)
		}
	}
	if _, err := s.Get(t.Context(), install, "toys", "there", start); err != nil {
		t.Error(err)
	}
	locks.Exec(t, `COMMIT`)
	wg.Wait()
	sums := map[canonjson.Number]bool{}
	for i, err := range errs {
		switch {
		case i == 10 && errcode.Is(err, errcode.Conflict), i == 11 && errors.Is(err, ext.ErrSchemaChanged), i == 12 && errors.Is(err, ext.ErrNoRecord):
			continue
		case err != nil || i >= 10 && i <= 12:
			t.Errorf("write %d: %+v, %v", i, answers[i], err)
			continue
		}
		sums[answers[i].Items[0].Sum] = true
		w := write(addTo("n"))
		w.IdempotencyKey = &ext.IdempotencyKey{Key: fmt.Sprint(i)}
		if again, err := s.Apply(t.Context(), install, w); err != nil || !again.Replayed || again.Items[0] != answers[i].Items[0] {
			t.Errorf("write %d again: %+v, %v; first %+v", i, again, err, answers[i])
		}
	}
	if len(sums) != writers-3 || !sums[canonjson.Number(fmt.Sprint(writers-3))] {
		t.Errorf("the sums are %v", sums)
	}
	mu.Lock()
	n := calls["ext.apply_all"]
	mu.Unlock()
	if n == 0 || n > 10 {
		t.Errorf("%d calls for writes that waited together: %v", n, calls)
	}
	feed, err := s.Changes(t.Context(), install, 0, 100)
	if err != nil || len(feed.Changes) != 1+writers-3 || int(feed.Last) != len(feed.Changes) {
		t.Errorf("the feed is %+v, %v", feed, err)
	}
}

func TestWaitersLeaveConnections(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
	if err := apply(t, a.store, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	a.Exec(t, `BEGIN`)
	a.Exec(t, holdInstall)
	var wg sync.WaitGroup
	const writers = 20
	for i := range writers {
		wg.Go(func() {
			op := putOf("there")
			if i > 1 && i%2 == 0 {
				op = addTo("there")
			}
			if err := apply(t, a.store, write(op)); err != nil {
				t.Error(err)
			}
		})
		if i < 2 {
			a.Waiting(t, i+1)
		}
	}
	for n := range byte(50) {
		if _, err := a.store.Apply(t.Context(), owner(2+n), write(putOf("a"), addTo("b"))); err != nil {
			t.Error(err)
		}
	}
	a.Waiting(t, 2)
	a.Exec(t, `COMMIT`)
	wg.Wait()
}

// TestStoppedProcess checks that a process that stops within a transaction loses the install's lock.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
	other := open(t, pgdb.Options{URL: testdb.WithParameter(t, a.url, "application_name", "other"), MaxConns: 2})
	if err := apply(t, a.store, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	op := addTo("there")
	add, calls := op.Revise, 0
	release := make(chan struct{})
	op.Revise = func(before canonjson.Value) (canonjson.Value, canonjson.Number, error) {
		switch calls++; calls {
		case 1: // another process wins
			if err := apply(t, other, write(putOf("there"))); err != nil {
				t.Error(err)
			}
		case 2: // under the lock
			go func() {
				defer close(release)
				if err := apply(t, other, write(putOf("there"))); err != nil {
					t.Error(err)
				}
			}()
			<-release
		}
		return add(before)
	}
	if err := apply(t, a.store, write(op)); !errcode.Is(err, errcode.Unavailable) || calls != 2 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	if r, err := a.store.Get(t.Context(), install, "toys", "there", start); err != nil || r.Revision != 3 {
		t.Errorf("the record is %+v, %v", r, err)
	}
	if err := apply(t, a.store, write(addTo("there"))); err != nil {
		t.Error(err)
	}
}
