package storetest

import (
	"errors"
	"testing"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
)

func collectionChecks() []check {
	return []check{
		{"Standard", standardNames},
		{"FirstUse", firstUse},
		{"TooManyNames", tooManyNames},
		{"NamesOfOthersAreFree", namesOfOthers},
		{"NamesSurviveDeleteAll", namesSurvive},
		{"RefusedNameLeavesNoTrace", refusedName},
		{"ConcurrentFirstUse", concurrentFirstUse},
		{"ConcurrentNames", concurrentNames},
		{"HiddenWhileABatchIsOpen", hiddenCollection},
		{"EmptyCollectionStays", emptyCollection},
	}
}

// standardNames checks that standard names do not count against MaxNames.
func standardNames(t *testing.T, u *user) {
	w := u.write("")
	w.MaxNames = 0
	for _, c := range ss.StandardCollections() {
		w.Collection = c.Name
		_, err := u.store.Put(t.Context(), u.owner, w, bso("a", c.Name))
		must(t, "Put in "+c.Name, err)
	}
	for _, c := range ss.StandardCollections() {
		equal(t, c.Name, u.get(c.Name, "a").payload, c.Name)
	}
	equal(t, "collections", len(u.state().collections), len(ss.StandardCollections()))
}

func firstUse(t *testing.T, u *user) {
	for _, way := range ways() {
		name := newName()
		stamp := way.write(u, name, bso("a", "x")).Modified
		s := u.state().collections[name]
		equal(t, way.name+": stamp", s.modified, stamp)
		equal(t, way.name+": records", s.records, 1)
	}
	name := newName()
	stamp := u.post(name).Modified
	equal(t, "empty Post", u.list(name).modified, stamp)
	equal(t, "collections", len(u.collections().Stamps), len(ways())+1)
}

func tooManyNames(t *testing.T, u *user) {
	w := u.write(newName())
	w.MaxNames = 2
	first := w.Collection
	_, err := u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	must(t, "Put", err)
	w.Collection = newName()
	_, err = u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", "x")})
	must(t, "Post", err)
	before := u.state()

	w.Collection = newName()
	_, err = u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	wantError(t, "Put", err, ss.ErrTooManyNames)
	_, err = u.store.Post(t.Context(), u.owner, w, []ss.Update{bso("a", "x")})
	wantError(t, "Post", err, ss.ErrTooManyNames)
	_, err = u.store.Append(t.Context(), u.owner, w, ss.BatchPart{ID: newBatch(), Opens: true, Updates: []ss.Update{bso("a", "x")}, Limits: limits()})
	wantError(t, "Append", err, ss.ErrTooManyNames)
	u.wantState("names over the limit", before)

	for _, known := range []string{first, "bookmarks"} {
		w.Collection = known
		_, err = u.store.Put(t.Context(), u.owner, w, bso("b", "x"))
		must(t, "Put in "+known, err)
	}
}

func namesOfOthers(t *testing.T, u *user) {
	name := newName()
	u.put(name, bso("a", "x"))
	v := u.other()
	w := v.write(name)
	w.MaxNames = 0
	_, err := v.store.Put(t.Context(), v.owner, w, bso("a", "x"))
	must(t, "Put under another's name", err)

	w.Collection, w.MaxNames = newName(), 1
	_, err = v.store.Put(t.Context(), v.owner, w, bso("a", "x"))
	must(t, "Put under an own name", err)
}

// namesSurvive checks that deletions do not free names.
func namesSurvive(t *testing.T, u *user) {
	w := u.write(newName())
	w.MaxNames = 1
	_, err := u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	must(t, "Put", err)
	u.deleteAll()
	u.wantState("DeleteAll", state{})
	_, err = u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	must(t, "Put under the old name", err)
	w.Collection = newName()
	_, err = u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	wantError(t, "Put under a new name", err, ss.ErrTooManyNames)
}

func refusedName(t *testing.T, u *user) {
	w := u.write(newName())
	w.MaxNames = 0
	_, err := u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	wantError(t, "Put", err, ss.ErrTooManyNames)
	_, err = u.other().store.Put(t.Context(), newOwner(), w, bso("a", "x"))
	wantError(t, "Put of another user", err, ss.ErrTooManyNames)
	w.MaxNames = 1
	_, err = u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
	must(t, "Put", err)
}

// concurrentFirstUse checks that users who add a name at the same time all get their own data under it.
func concurrentFirstUse(t *testing.T, u *user) {
	for range 3 {
		name := newName()
		var users [parallel]*user
		for i := range users {
			users[i] = u.other()
		}
		errs := testdb.Concurrently(parallel, func(i int) error {
			_, err := users[i].store.Put(t.Context(), users[i].owner, users[i].write(name), bso("a", "x"))
			return err
		})
		must(t, "Put", errors.Join(errs...))
		for _, v := range users {
			equal(t, "collections", len(v.collections().Stamps), 1)
			equal(t, "payload", v.get(name, "a").payload, "x")
		}
	}
}

func concurrentNames(t *testing.T, u *user) {
	added := 0
	for _, err := range testdb.Concurrently(parallel, func(int) error {
		w := u.write(newName())
		w.MaxNames = 3
		_, err := u.store.Put(t.Context(), u.owner, w, bso("a", "x"))
		return err
	}) {
		if err == nil {
			added++
			continue
		}
		wantError(t, "Put", err, ss.ErrTooManyNames)
	}
	equal(t, "new names", added, 3)
	equal(t, "collections", len(u.state().collections), 3)
}

// hiddenCollection checks that a collection that exists only for a batch is invisible.
func hiddenCollection(t *testing.T, u *user) {
	for _, name := range []string{"tabs", newName()} {
		b := u.stage(name, bso("a", "x"))
		u.append(name, b, bso("b", "x"))
		u.wantState("opening a batch", state{})
		equal(t, "List", u.list(name).modified, 0)
	}
	u.put("bookmarks", bso("a", "x"))
	equal(t, "collections", len(u.state().collections), 1)

	b := u.stage("forms", bso("a", "x"))
	stamp := u.put("forms", bso("b", "x"))
	equal(t, "Previous of the first write", stamp.Previous, 0)
	equal(t, "List", u.list("forms").modified, stamp.Modified)
	equalIDs(t, "records", u.list("forms"), "b")
	u.commit("forms", b)
	equalIDs(t, "records", u.list("forms"), "b", "a")
}

// emptyCollection checks that a collection exists without records.
func emptyCollection(t *testing.T, u *user) {
	u.post("bookmarks")
	u.put("tabs", bso("a", "x"))
	u.deleteBSO("tabs", "a")
	u.put("forms", bso("a", "x"))
	u.deleteBSOs("forms", "a")
	u.put("history", expiring("a", "x", 1))
	u.wait(5e9)
	s := u.state()
	for _, name := range []string{"bookmarks", "tabs", "forms", "history"} {
		if c, ok := s.collections[name]; !ok || c.records != 0 || c.bytes != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
