package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

func concurrencyChecks() []check {
	return []check{
		{"Writers", writers},
		{"FirstWriters", firstWriters},
		{"IfUnmodifiedSince", oneWins},
		{"CreateOnly", createOnly},
		{"Appends", concurrentAppends},
		{"Commits", concurrentCommits},
		{"CommitsSideBySide", concurrentBatches},
		{"DeleteAgainstWrite", deleteAgainstWrite},
		{"DeleteAllAgainstWrite", deleteAllAgainstWrite},
	}
}

const parallel = 16

type stamped struct {
	mu   sync.Mutex
	seen map[ss.Timestamp]string
}

func (s *stamped) add(what string, w ss.Written, err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, twice := s.seen[w.Modified]; twice {
		return fmt.Errorf("%s and %s have the stamp %v", other, what, w.Modified)
	}
	if s.seen == nil {
		s.seen = map[ss.Timestamp]string{}
	}
	s.seen[w.Modified] = what
	return nil
}

func writers(t *testing.T, u *user) {
	var all stamped
	errs := testdb.Concurrently(parallel, func(i int) error {
		var last ss.Timestamp
		for j := range 5 {
			name := ss.StandardCollections()[i%3].Name
			id := fmt.Sprint(i, j)
			var w ss.Written
			var err error
			switch j % 3 {
			case 0:
				w, err = u.store.Put(t.Context(), u.owner, u.write(name), bso(id, "x"))
			case 1:
				w, err = u.store.Post(t.Context(), u.owner, u.write(name), []ss.Update{bso(id, "x"), bso("shared", id)})
			case 2:
				w, err = u.store.DeleteBSOs(t.Context(), u.owner, u.write(name), []string{fmt.Sprint(i, j-1)})
			}
			if err := all.add(id, w, err); err != nil {
				return err
			}
			if w.Modified <= last || w.Modified <= w.Previous {
				return fmt.Errorf("stamp %v after %v and %v", w.Modified, last, w.Previous)
			}
			last = w.Modified
		}
		return nil
	})
	must(t, "writers", errors.Join(errs...))
	s := u.state()
	var records int
	for _, c := range s.collections {
		records += len(c.list)
	}
	equal(t, "records", records, parallel*3+3)
	equal(t, "stamps without a gap", s.modified, t0+(parallel*5-1)*tick)
}

func firstWriters(t *testing.T, u *user) {
	for range 5 {
		u := u.other()
		var all stamped
		errs := testdb.Concurrently(parallel, func(i int) error {
			name := ss.StandardCollections()[i%2].Name
			w, err := u.store.Put(t.Context(), u.owner, u.write(name), bso(fmt.Sprint(i), "x"))
			return all.add(fmt.Sprint(i), w, err)
		})
		must(t, "first writers", errors.Join(errs...))
		s := u.state()
		equal(t, "records", len(s.collections["clients"].list)+len(s.collections["crypto"].list), parallel)
		equal(t, "stamps without a gap", s.modified, t0+(parallel-1)*tick)
	}
}

func wantOneWinner(t *testing.T, errs []error, stamp ss.Timestamp) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantError(t, "another writer", err, &ss.PreconditionError{Modified: stamp})
	}
	equal(t, "winners", won, 1)
}

func oneWins(t *testing.T, u *user) {
	for name, write := range map[string]func(u *user, w ss.Write, i int) error{
		"Put": func(u *user, w ss.Write, i int) error {
			_, err := u.store.Put(t.Context(), u.owner, w, bso("a", fmt.Sprint(i)))
			return err
		},
		"Post": func(u *user, w ss.Write, i int) error {
			_, err := u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", fmt.Sprint(i)), bso(fmt.Sprint(i), "x")})
			return err
		},
		"Commit": func(u *user, w ss.Write, i int) error {
			b := newBatch()
			if _, err := u.store.Append(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Opens: true, Limits: limits()}); err != nil {
				return err
			}
			_, err := u.store.Commit(t.Context(), u.owner, w, ss.BatchPart{ID: b, Updates: []ss.Update{bso("a", fmt.Sprint(i)), bso(fmt.Sprint(i), "x")}, Limits: limits()})
			return err
		},
	} {
		for range 3 {
			u := u.other()
			seen := u.put("bookmarks", bso("a", "x")).Modified
			errs := testdb.Concurrently(parallel, func(i int) error { return write(u, u.writeIf("bookmarks", ifUnmodifiedSince(seen)), i) })
			wantOneWinner(t, errs, seen+tick)
			records := 2
			if name == "Put" {
				records = 1
			}
			equal(t, name+": records", len(u.state().collections["bookmarks"].list), records)
		}
	}
}

func createOnly(t *testing.T, u *user) {
	for _, prepare := range []func(u *user){
		func(*user) {},
		func(u *user) { u.put("bookmarks", bso("b", "x")) },
		func(u *user) { u.put("bookmarks", expiring("a", "expired", 0)) },
		func(u *user) { u.put("bookmarks", bso("a", "deleted")); u.deleteBSO("bookmarks", "a") },
	} {
		u := u.other()
		prepare(u)
		u.wait(60e9)
		errs := testdb.Concurrently(parallel, func(i int) error {
			_, err := u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), bso("a", fmt.Sprint(i)))
			return err
		})
		wantOneWinner(t, errs, u.now)
		equal(t, "stamp", u.get("bookmarks", "a").modified, u.now)
		u.state()
	}
}

func concurrentAppends(t *testing.T, u *user) {
	b := u.stage("bookmarks")
	errs := testdb.Concurrently(parallel, func(i int) error {
		for j := range 3 {
			us := []ss.Update{bso(fmt.Sprintf("%02d-%d", i, j), "x"), bso("shared", fmt.Sprint(i))}
			if _, err := u.store.Append(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Updates: us, Limits: limits()}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, "Append", errors.Join(errs...))
	u.commit("bookmarks", b)
	equal(t, "records", len(u.state().collections["bookmarks"].list), parallel*3+1)

	b = u.stage("tabs")
	exact := ss.BatchLimits{Records: 5, Bytes: 100}
	fitted := 0
	for _, err := range testdb.Concurrently(parallel, func(i int) error {
		_, err := u.store.Append(t.Context(), u.owner, u.write("tabs"), ss.BatchPart{ID: b, Updates: []ss.Update{bso(fmt.Sprint(i), "x")}, Limits: exact})
		return err
	}) {
		if err == nil {
			fitted++
			continue
		}
		wantError(t, "Append over the limit", err, ss.ErrBatchTooLarge)
	}
	equal(t, "appends that fitted", fitted, 5)
}

func concurrentCommits(t *testing.T, u *user) {
	b := u.stage("bookmarks", bso("a", "x"))
	committed, winner := 0, -1
	for i, err := range testdb.Concurrently(parallel, func(i int) error {
		_, err := u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Updates: []ss.Update{bso(fmt.Sprint(i), "x")}, Limits: limits()})
		return err
	}) {
		if err == nil {
			committed++
			winner = i
			continue
		}
		wantError(t, "a second commit", err, ss.ErrNoBatch)
	}
	equal(t, "commits", committed, 1)
	want := []string{fmt.Sprint(winner), "a"}
	equalIDs(t, "records", u.list("bookmarks"), want...)
	equal(t, "stamp", u.collections().Modified, t0)
}

func concurrentBatches(t *testing.T, u *user) {
	batches := make([]ss.BatchID, parallel)
	for i := range batches {
		batches[i] = u.stage("bookmarks", bso(fmt.Sprint(i), "x"), bso("shared", fmt.Sprint(i)))
	}
	var all stamped
	written := make([]ss.Written, parallel)
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		written[i], err = u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: batches[i], Limits: limits()})
		return all.add(fmt.Sprint(i), written[i], err)
	})
	must(t, "Commit", errors.Join(errs...))
	shared := u.get("bookmarks", "shared")
	for i, w := range written {
		if w.Modified == shared.modified {
			equal(t, "the payload of the last commit", shared.payload, fmt.Sprint(i))
		}
	}
	equal(t, "the last stamp", shared.modified, t0+(parallel-1)*tick)
	equal(t, "records", len(u.state().collections["bookmarks"].list), parallel+1)
}

func deleteAgainstWrite(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"), bso("b", "x"))
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		for j := 0; j < 4 && err == nil; j++ {
			switch i % 4 {
			case 0:
				_, err = u.store.DeleteCollection(t.Context(), u.owner, u.write("bookmarks"))
			case 1:
				_, err = u.store.DeleteBSOs(t.Context(), u.owner, u.write("bookmarks"), []string{"a", "b"})
			case 2:
				_, err = u.store.Put(t.Context(), u.owner, u.write("bookmarks"), bso("a", fmt.Sprint(i, j)))
			case 3:
				_, err = u.store.Post(t.Context(), u.owner, u.write("bookmarks"), []ss.Update{bso("b", fmt.Sprint(i, j)), bso(fmt.Sprint(i, j), "x")})
			}
		}
		return err
	})
	must(t, "deletes and writes", errors.Join(errs...))
	s := u.state()
	for _, r := range s.collections["bookmarks"].list {
		if r.modified > s.collections["bookmarks"].modified {
			t.Errorf("%v is newer than its collection", r)
		}
	}
	last := u.deleteCollection("bookmarks").Modified
	if last < s.modified {
		t.Errorf("stamp %v after %v", last, s.modified)
	}
	equal(t, "collections", len(u.state().collections), 0)
}

func deleteAllAgainstWrite(t *testing.T, u *user) {
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		for j := 0; j < 4 && err == nil; j++ {
			name := ss.StandardCollections()[i%3].Name
			switch i % 4 {
			case 0:
				err = u.store.DeleteAll(t.Context(), u.owner, ss.Precondition{})
			case 1:
				b := newBatch()
				if _, err = u.store.Append(t.Context(), u.owner, u.write(name), ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("c", "x"), bso("d", "x")}, Limits: limits()}); err != nil {
					break
				}
				_, err = u.store.Commit(t.Context(), u.owner, u.write(name), ss.BatchPart{ID: b, Limits: limits()})
				if errors.Is(err, ss.ErrNoBatch) || errcode.Is(err, errcode.Precondition) {
					err = nil
				}
			default:
				_, err = u.store.Post(t.Context(), u.owner, u.write(name), []ss.Update{bso("a", "x"), bso("b", "x")})
			}
		}
		return err
	})
	must(t, "DeleteAll and writes", errors.Join(errs...))
	for name, c := range u.state().collections {
		if len(c.list)%2 != 0 {
			t.Errorf("%s has a part of a write: %v", name, c.list)
		}
	}
	u.deleteAll()
	u.wantState("the last DeleteAll", state{})
}
