package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
)

// The tests here hold two writers at a user's lock and let them go together. A
// step that decided on what it had read before the wait, or beside the lock,
// would let both win.

// arena is a database with a store and its locks.
type arena struct {
	*testdb.Locks
	store *postgres.Store
}

func newArena(t *testing.T) *arena {
	t.Helper()
	url := testdb.PostgresDatabase(t)
	store := open(t, pgdb.Options{URL: url, MaxConns: 4})
	return &arena{Locks: testdb.NewLocks(t, url), store: store} // the locks end first
}

const holdUser = `SELECT 1 FROM user_collections WHERE user_id = 1 AND collection_id = 0 FOR UPDATE`

// TestTwoWaiters runs each writing function twice at once, such that only one
// of the two may succeed.
func TestTwoWaiters(t *testing.T) {
	t.Parallel()
	const second ss.Timestamp = 1_700_000_000_000
	var (
		o       = ss.Owner{UID: 1}
		w       = ss.Write{Collection: "bookmarks", Now: second, MaxNames: 10}
		limits  = ss.BatchLimits{Records: 3, Bytes: 100}
		record  = ss.Update{ID: "a", Payload: ss.Some([]byte("12345"))}
		records = []ss.Update{record, {ID: "b", Payload: ss.Some([]byte("12345"))}}
	)
	iff := func(t ss.Timestamp) ss.Write {
		w := w
		w.If.UnmodifiedSince = ss.Some(t)
		return w
	}
	under := func(limit int64) ss.Write {
		w := w
		w.Quota = ss.Quota{User: limit, Enforce: true}
		return w
	}
	for _, c := range []struct {
		name  string
		setup func(s *postgres.Store) error
		step  func(s *postgres.Store, i int) error
		code  fault.Code // of the one that loses
	}{
		{"Put that creates", nil, func(s *postgres.Store, _ int) error {
			_, err := s.Put(t.Context(), o, iff(0), record)
			return err
		}, fault.Precondition},
		{"Put under a quota", nil, func(s *postgres.Store, i int) error {
			u := record
			u.ID = fmt.Sprint(i)
			_, err := s.Put(t.Context(), o, under(9), u)
			return err
		}, fault.Quota},
		{"Post", nil, func(s *postgres.Store, _ int) error {
			_, err := s.Post(t.Context(), o, iff(second), records)
			return err
		}, fault.Precondition},
		{"Append up to the limit", func(s *postgres.Store) error {
			_, err := s.Append(t.Context(), o, w, batch, true, nil, limits)
			return err
		}, func(s *postgres.Store, i int) error {
			_, err := s.Append(t.Context(), o, w, batch, false, []ss.Update{{ID: fmt.Sprint(i, "x")}, {ID: fmt.Sprint(i, "y")}}, limits)
			return err
		}, fault.TooLarge},
		{"Commit", func(s *postgres.Store) error {
			_, err := s.Append(t.Context(), o, w, batch, true, records, limits)
			return err
		}, func(s *postgres.Store, _ int) error {
			_, err := s.Commit(t.Context(), o, w, batch, nil, limits)
			return err
		}, fault.Invalid},
		{"DeleteBSO", nil, func(s *postgres.Store, _ int) error {
			_, err := s.DeleteBSO(t.Context(), o, w, "there")
			return err
		}, fault.NotFound},
		{"DeleteBSOs", nil, func(s *postgres.Store, _ int) error {
			_, err := s.DeleteBSOs(t.Context(), o, iff(second), []string{"there"})
			return err
		}, fault.Precondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t)
			if _, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "there"}); err != nil {
				t.Fatal(err)
			}
			if c.setup != nil {
				if err := c.setup(a.store); err != nil {
					t.Fatal(err)
				}
			}
			answers := a.Race(t, holdUser, `COMMIT`, func(i int) error { return c.step(a.store, i) })
			lost := errors.Join(answers[0], answers[1])
			if (answers[0] == nil) == (answers[1] == nil) || !fault.Is(lost, c.code) {
				t.Errorf("the answers are %v and %v; one must be %v", answers[0], answers[1], c.code)
			}
		})
	}
}

// TestFirstWriters: where a user has no lock yet, the writers still go one
// after the other, whatever becomes of whoever makes it first.
func TestFirstWriters(t *testing.T) {
	t.Parallel()
	o := ss.Owner{UID: 1}
	w := ss.Write{Collection: "bookmarks", Now: 1_700_000_000_000}
	w.If.UnmodifiedSince = ss.Some[ss.Timestamp](0)
	const insert = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (1, 0, 'epoch')`
	for _, c := range []struct{ name, setup, hold, end string }{
		{"the first commits", `SELECT 1`, insert, `COMMIT`},
		{"the first gives up", `SELECT 1`, insert, `ROLLBACK`},
		{"the user is deleted meanwhile", insert, `DELETE FROM user_collections WHERE user_id = 1`, `COMMIT`},
		{"the user is not deleted after all", insert, `DELETE FROM user_collections WHERE user_id = 1`, `ROLLBACK`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t)
			a.Exec(t, c.setup)
			answers := a.Race(t, c.hold, c.end, func(int) error {
				_, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "a"})
				return err
			})
			if (answers[0] == nil) == (answers[1] == nil) {
				t.Errorf("the answers are %v and %v; one must win", answers[0], answers[1])
			}
		})
	}
}

// TestWaiterIsEnded: a writer whose connection the server ends leaves nothing,
// and the store goes on.
func TestWaiterIsEnded(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	o := ss.Owner{UID: 1}
	w := ss.Write{Collection: "bookmarks", Now: 1_700_000_000_000}
	if _, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	answers := a.Race(t, holdUser, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`, func(int) error {
		_, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "b"})
		return err
	})
	a.Exec(t, `COMMIT`)
	for _, err := range answers {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("answered %v", err)
		}
	}
	_, err := a.store.Get(t.Context(), o, "bookmarks", "b", ss.Precondition{}, w.Now)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("the record: %v", err)
	}
	if _, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "b"}); err != nil {
		t.Errorf("the next write: %v", err)
	}
}

// TestNewNameWaits: a name that another user is making right now is waited
// for, and is one name then.
func TestNewNameWaits(t *testing.T) {
	t.Parallel()
	for _, end := range []string{`COMMIT`, `ROLLBACK`} {
		a := newArena(t)
		answers := a.Race(t, `INSERT INTO collections (name) VALUES ('toys')`, end, func(i int) error {
			_, err := a.store.Put(t.Context(), ss.Owner{UID: int64(1 + i)},
				ss.Write{Collection: "toys", Now: 1_700_000_000_000, MaxNames: 1}, ss.Update{ID: "a"})
			return err
		})
		if answers[0] != nil || answers[1] != nil {
			t.Errorf("%s: %v and %v", end, answers[0], answers[1])
		}
	}
}
