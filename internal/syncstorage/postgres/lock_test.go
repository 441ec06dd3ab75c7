package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
)

// These tests make two writers wait for a user's lock and release them together. A write that decides on data read
// before it acquired the lock would let both succeed.

type lockTest struct {
	*testdb.Locks
	store *postgres.Store
}

func newLockTest(t *testing.T) *lockTest {
	t.Helper()
	url := testdb.PostgresDatabase(t)
	store := open(t, pgdb.Options{URL: url, MaxConns: 4})
	return &lockTest{Locks: testdb.NewLocks(t, url), store: store}
}

const holdUser = `SELECT 1 FROM user_collections WHERE user_id = 1 AND collection_id = 0 FOR UPDATE`

// TestTwoWaiters runs each writing function twice concurrently where only a single call may succeed.
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
		code  errcode.Code
	}{
		{"Put that creates", nil, func(s *postgres.Store, _ int) error {
			_, err := s.Put(t.Context(), o, iff(0), record)
			return err
		}, errcode.Precondition},
		{"Put under a quota", nil, func(s *postgres.Store, i int) error {
			u := record
			u.ID = fmt.Sprint(i)
			_, err := s.Put(t.Context(), o, under(9), u)
			return err
		}, errcode.Quota},
		{"Post", nil, func(s *postgres.Store, _ int) error {
			_, err := s.Post(t.Context(), o, iff(second), records)
			return err
		}, errcode.Precondition},
		{"Append up to the limit", func(s *postgres.Store) error {
			_, err := s.Append(t.Context(), o, w, ss.BatchPart{ID: batch, Opens: true, Limits: limits})
			return err
		}, func(s *postgres.Store, i int) error {
			_, err := s.Append(t.Context(), o, w, ss.BatchPart{ID: batch, Updates: []ss.Update{{ID: fmt.Sprint(i, "x")}, {ID: fmt.Sprint(i, "y")}}, Limits: limits})
			return err
		}, errcode.TooLarge},
		{"Commit", func(s *postgres.Store) error {
			_, err := s.Append(t.Context(), o, w, ss.BatchPart{ID: batch, Opens: true, Updates: records, Limits: limits})
			return err
		}, func(s *postgres.Store, _ int) error {
			_, err := s.Commit(t.Context(), o, w, ss.BatchPart{ID: batch, Limits: limits})
			return err
		}, errcode.Invalid},
		{"DeleteBSO", nil, func(s *postgres.Store, _ int) error {
			_, err := s.DeleteBSO(t.Context(), o, w, "there")
			return err
		}, errcode.NotFound},
		{"DeleteBSOs", nil, func(s *postgres.Store, _ int) error {
			_, err := s.DeleteBSOs(t.Context(), o, iff(second), []string{"there"})
			return err
		}, errcode.Precondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newLockTest(t)
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
			if (answers[0] == nil) == (answers[1] == nil) || !errcode.Is(lost, c.code) {
				t.Errorf("the results are %v and %v; one must be %v", answers[0], answers[1], c.code)
			}
		})
	}
}

// TestFirstWriters checks that writers are serialized while the user's lock row does not exist, even if its creator
// rolls back.
func TestFirstWriters(t *testing.T) {
	t.Parallel()
	o := ss.Owner{UID: 1}
	w := ss.Write{Collection: "bookmarks", Now: 1_700_000_000_000}
	w.If.UnmodifiedSince = ss.Some[ss.Timestamp](0)
	const insert = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (1, 0, 'epoch')`
	for _, c := range []struct{ name, setup, hold, end string }{
		{"the first commits", `SELECT 1`, insert, `COMMIT`},
		{"the first rolls back", `SELECT 1`, insert, `ROLLBACK`},
		{"the user is deleted meanwhile", insert, `DELETE FROM user_collections WHERE user_id = 1`, `COMMIT`},
		{"the deletion of the user is rolled back", insert, `DELETE FROM user_collections WHERE user_id = 1`, `ROLLBACK`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newLockTest(t)
			a.Exec(t, c.setup)
			answers := a.Race(t, c.hold, c.end, func(int) error {
				_, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "a"})
				return err
			})
			if (answers[0] == nil) == (answers[1] == nil) {
				t.Errorf("the results are %v and %v; one must succeed", answers[0], answers[1])
			}
		})
	}
}

// TestWaiterIsEnded checks that a writer whose connection is terminated leaves nothing behind.
func TestWaiterIsEnded(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
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
		if !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("answered %v", err)
		}
	}
	_, err := a.store.Get(t.Context(), o, ss.Request{Collection: "bookmarks", Now: w.Now}, "b")
	if !errcode.Is(err, errcode.NotFound) {
		t.Errorf("the record: %v", err)
	}
	if _, err := a.store.Put(t.Context(), o, w, ss.Update{ID: "b"}); err != nil {
		t.Errorf("the next write: %v", err)
	}
}

func TestNewNameWaits(t *testing.T) {
	t.Parallel()
	for _, end := range []string{`COMMIT`, `ROLLBACK`} {
		a := newLockTest(t)
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
