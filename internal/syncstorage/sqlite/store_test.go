package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb/opened"
)

func open(t testing.TB, fault func(string) error) *sqlite.Store {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{Fault: fault}, sqlite.Migrations))
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		return storetest.Harness{
			Store:  open(t, nil),
			Faulty: func(t testing.TB, fault func(string) error) syncstorage.Store { return open(t, fault) },
		}
	})
}

// TestStatements runs each kind of write, so that a statement that does not fit the schema is reported by name.
func TestStatements(t *testing.T) {
	t.Parallel()
	s, ctx := open(t, nil), t.Context()
	o := syncstorage.Owner{UID: 1}
	w := syncstorage.Write{Collection: "toys", Now: 1000, MaxNames: 10, Quota: syncstorage.Quota{User: 10, Enforce: true}}
	limits := syncstorage.BatchLimits{Records: 10, Bytes: 100}
	u := syncstorage.Update{ID: "a", Payload: syncstorage.Some([]byte("x"))}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Put(ctx, o, w, u)
	must(err)
	_, err = s.Post(ctx, o, w, []syncstorage.Update{u, {ID: "b"}})
	must(err)
	id := syncstorage.BatchID("00000000000000000000000000000001")
	_, err = s.Append(ctx, o, w, syncstorage.BatchPart{ID: id, Opens: true, Updates: []syncstorage.Update{u}, Limits: limits})
	must(err)
	_, err = s.Commit(ctx, o, w, syncstorage.BatchPart{ID: id, Updates: []syncstorage.Update{{ID: "c"}}, Limits: limits})
	must(err)
	u.Payload.Value = []byte("far too long for the quota")
	if _, err = s.Put(ctx, o, w, u); err != syncstorage.ErrQuota {
		t.Errorf("over the quota: %v", err)
	}
	_, err = s.Get(ctx, o, syncstorage.Request{Collection: "toys", Now: 1000}, "c")
	must(err)
	for _, sort := range []syncstorage.Sort{syncstorage.Newest, syncstorage.Oldest, syncstorage.ByIndex} {
		l, err := s.List(ctx, o, &syncstorage.Query{Collection: "toys", Full: true, Sort: sort, Limit: syncstorage.Some(2), IDs: []string{"a", "b", "c"},
			Newer: syncstorage.Some(syncstorage.Timestamp(1)), Older: syncstorage.Some(syncstorage.Timestamp(9999999))})
		must(err)
		if l.Records != 2 || !l.More {
			t.Errorf("sort %d: %d records, more %v", sort, l.Records, l.More)
		}
		l.Close()
	}
	_, err = s.DeleteBSO(ctx, o, w, "a")
	must(err)
	_, err = s.DeleteBSOs(ctx, o, w, []string{"b"})
	must(err)
	usage, err := s.Usage(ctx, o, 2000)
	must(err)
	if len(usage.Collections) != 1 || usage.Collections[0].Records != 1 {
		t.Errorf("usage %+v", usage)
	}
	_, err = s.DeleteCollection(ctx, o, w)
	must(err)
	_, err = s.Sweep(ctx, 5000, 10)
	must(err)
	must(s.DeleteAll(ctx, o, syncstorage.Precondition{}))
	cs, err := s.Collections(ctx, o)
	must(err)
	if cs.Modified != 0 || len(cs.Stamps) != 0 {
		t.Errorf("after DeleteAll: %+v", cs)
	}
}

// TestDamagedFile requires that reads that use a snapshot explain a damaged file, as other reads do.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	ctx, path, o := t.Context(), filepath.Join(t.TempDir(), "sync.db"), syncstorage.Owner{UID: 1}
	db := opened.SQLite(t, sqlitedb.Options{Path: path}, sqlite.Migrations)
	var us []syncstorage.Update
	for i := range 100 {
		us = append(us, syncstorage.Update{ID: fmt.Sprint(i), Payload: syncstorage.Some(bytes.Repeat([]byte("x"), 20_000))})
	}
	if _, err := sqlite.New(db).Post(ctx, o, syncstorage.Write{Collection: "tabs", Now: 1000}, us); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(content) / 8; i < len(content); i++ { // the schema and the tables' roots are before
		content[i] = 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = damaged.Close() })
	s := sqlite.New(damaged)
	wantDamage := func(method string, err error) {
		t.Helper()
		if errcode.Message(err) != "the database file is damaged" || errcode.Fix(err) == "" {
			t.Errorf("%s: %v, want the damage with advice", method, err)
		}
	}
	exported := error(nil)
	for _, err := range s.Export(ctx, o, 2000) {
		exported = err
	}
	wantDamage("Export", exported)
	for _, full := range []bool{false, true} { // gathered, and streamed
		l, err := s.List(ctx, o, &syncstorage.Query{Collection: "tabs", Full: full, Now: 2000})
		if err == nil {
			for _, err = range l.Items {
			}
			l.Close()
		}
		wantDamage(fmt.Sprintf("List, full %v", full), err)
	}
}
