package app_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/app/tokenserver"
	"holdfast/internal/copying"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb/opened"
)

// TestCopyOwnersOnSpanner checks that accounts provide the owners that Spanner names by account and keys. The newest
// user with the same keys owns the data.
func TestCopyOwnersOnSpanner(t *testing.T) {
	t.Parallel()
	users := sqliteURL(t)
	tokens := openOne(t, "tokenserver", users)
	execute(t, users, `INSERT INTO users (uid, service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at) VALUES
		(1, 1, 'alice@example.com', 1, 'aaaa', 1, 2, 1, 7), (2, 1, 'alice@example.com', 1, 'aaaa', 2, NULL, 1, 7),
		(3, 1, 'alice@example.com', 1, 'bbbb', 1, 2, 1, 6), (4, 1, 'bob@example.com', 1, 'aaaa', 1, NULL, 1, NULL)`)
	source := sqliteURL(t)
	c := newCopy(t, "syncstorage", source, spannerURL(t))
	store := syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: strings.TrimPrefix(source, "sqlite:")}, nil))
	for uid := int64(1); uid <= 4; uid++ {
		for i, name := range []string{"tabs", "own"} {
			_, err := store.Put(t.Context(), ss.Owner{UID: uid}, ss.Write{Collection: name, Now: ss.Timestamp(1_700_000_000_000 + 10*i), MaxNames: 9},
				ss.Update{ID: "a", Payload: ss.Some([]byte(fmt.Sprint("of ", uid)))})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "requires the service that knows the owners") {
		t.Errorf("a copy without the accounts: %v", err)
	}
	c.Owners = tokenserver.Owners(tokens.Database.Rows(nil))
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, c)
	target := c.Target.Rows(c.Owners)
	if err := target.Close(t.Context(), "syncstorage", "a test", 0, nil); err != nil {
		t.Fatal(err)
	}
	if hold, err := target.ReadOnly(t.Context(), "syncstorage"); err != nil || hold.Holder != "a test" || !hold.Until.IsZero() {
		t.Errorf("the target is read-only: %+v, %v", hold, err)
	}
	if err := target.Close(t.Context(), "syncstorage", "another", 0, nil); !errcode.Is(err, errcode.Conflict) {
		t.Errorf("read-only by another: %v", err)
	}
	if err := target.Reopen(t.Context(), "syncstorage", nil); err != nil {
		t.Fatal(err)
	}

	back := newCopy(t, "syncstorage", "spanner://"+c.Target.Target.URL, sqliteURL(t))
	back.Owners = c.Owners
	if err := back.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, back)
	copied := syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: back.Target.Target.Path}, nil))
	for uid, want := range map[int64]string{1: "", 2: "of 2", 3: "of 3", 4: "of 4"} {
		b, err := copied.Get(t.Context(), ss.Owner{UID: uid}, ss.Request{Collection: "own", Now: 1_700_000_000_100}, "a")
		if want == "" && errcode.Is(err, errcode.NotFound) {
			continue
		}
		if err != nil || string(b.Payload) != want || b.Modified != 1_700_000_000_010 {
			t.Errorf("the record of %d is %q of %d, %v", uid, b.Payload, b.Modified, err)
		}
	}

	if err := back.Source.Rows(c.Owners).Reopen(t.Context(), "syncstorage", back.Groups); err != nil {
		t.Fatal(err)
	}
	execute(t, users, `DELETE FROM users WHERE uid = 4`)
	for name, unknown := range map[string]*copying.Copy{
		"to Spanner":   newCopy(t, "syncstorage", "sqlite:"+back.Target.Target.Path, spannerURL(t)),
		"from Spanner": newCopy(t, "syncstorage", "spanner://"+c.Target.Target.URL, sqliteURL(t)),
	} {
		unknown.Owners, unknown.OwnersIn = c.Owners, tokenserver.Name
		if err := unknown.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "tokenserver") {
			t.Errorf("%s, without the account of a user: %v", name, err)
		}
	}
}
