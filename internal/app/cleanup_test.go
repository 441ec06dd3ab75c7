package app

import (
	"testing"
	"time"

	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// A storage user that new keys have replaced loses its data after the grace,
// not before, and its successor keeps what it has.
func TestReplacedUsersDataGoes(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	ctx, now := t.Context(), a.Now()
	if err := a.afterMigrations(ctx); err != nil {
		t.Fatal(err)
	}
	account := tokenserver.Account{FxAUID: "alice", Domain: "accounts.example"}
	signIn := func(keys int64, state string, at time.Time) tokenserver.User {
		t.Helper()
		u, err := a.accounts.Store.SignIn(ctx, account, tokenserver.SignIn{
			Generation: tokenserver.At(keys), Keys: tokenserver.KeyID{ChangedAt: tokenserver.At(keys), ClientState: state},
			Now: at, AllowNew: true, ReleaseRate: 0.1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	put := func(u *tokenserver.User) syncstorage.Owner {
		t.Helper()
		o := a.Owner(u)
		_, err := a.storage.Put(ctx, o, syncstorage.Request{Collection: "tabs", Now: syncstorage.At(now)},
			syncstorage.Item{Update: syncstorage.Update{ID: "x", Payload: syncstorage.Some([]byte("data"))}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	stored := func(o syncstorage.Owner) int64 {
		t.Helper()
		u, err := a.storage.Usage(ctx, o, syncstorage.Precondition{}, syncstorage.At(now))
		if err != nil {
			t.Fatal(err)
		}
		return u.Bytes()
	}
	first := signIn(1, "aaaa", now)
	old := put(&first)
	second := signIn(2, "bbbb", now.Add(time.Second))
	fresh := put(&second)

	for _, tc := range []struct {
		after time.Duration
		old   int64
	}{{6 * 24 * time.Hour, 4}, {8 * 24 * time.Hour, 0}} {
		if _, err := a.accounts.Cleanup(ctx, now.Add(tc.after), 100); err != nil {
			t.Fatal(err)
		}
		if stored(old) != tc.old || stored(fresh) != 4 {
			t.Errorf("after %v: the old keys' data has %d bytes, the new %d", tc.after, stored(old), stored(fresh))
		}
	}
	users, err := a.accounts.Store.ListUsers(ctx, 0, 10, true)
	if err != nil || len(users) != 1 || users[0].UID != second.UID {
		t.Errorf("rows left: %+v, %v", users, err)
	}
}
