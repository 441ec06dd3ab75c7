package app

import (
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/sync"
	accounts "holdfast/internal/app/tokenserver"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// TestReplacedUsersDataGoes checks that a replaced storage user's data is deleted only after the grace period, and
// that the successor's data remains.
func TestReplacedUsersDataGoes(t *testing.T) {
	t.Parallel()
	storage := sync.New()
	account := accounts.New(storageOf(storage))
	a := openServices(t, []service.Service{storage.Service(), account.Service()})
	ctx, now := t.Context(), time.Now()
	if failed := a.settleServices(ctx); len(failed) > 0 {
		t.Fatal(failed)
	}
	signIn := func(keys int64, state string) *tokenserver.User {
		t.Helper()
		g, err := account.Opened().SignIn(ctx, tokenserver.Request{
			Identity: tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(keys)},
			Keys:     tokenserver.KeyID{ChangedAt: tokenserver.At(keys), ClientState: state},
		})
		if err != nil {
			t.Fatal(err)
		}
		users, err := account.Opened().ListUsers(ctx, g.UID-1, 1, false)
		if err != nil || len(users) != 1 || users[0].UID != g.UID {
			t.Fatalf("user %d: %+v, %v", g.UID, users, err)
		}
		return &users[0]
	}
	put := func(u *tokenserver.User) syncstorage.Owner {
		t.Helper()
		o := owner(u)
		_, err := storage.Opened().Put(ctx, o, syncstorage.Request{Collection: "tabs", Now: syncstorage.At(now)},
			syncstorage.Item{Update: syncstorage.Update{ID: "x", Payload: syncstorage.Some([]byte("data"))}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	stored := func(o syncstorage.Owner) int64 {
		t.Helper()
		u, err := storage.Opened().Usage(ctx, o, syncstorage.Precondition{}, syncstorage.At(now))
		if err != nil {
			t.Fatal(err)
		}
		return u.Bytes()
	}
	old := put(signIn(1, "aaaa"))
	second := signIn(2, "bbbb")
	fresh := put(second)

	for _, tc := range []struct {
		after time.Duration
		old   int64
	}{{6 * 24 * time.Hour, 4}, {8 * 24 * time.Hour, 0}} {
		if _, err := account.Opened().Cleanup(ctx, now.Add(tc.after), 100); err != nil {
			t.Fatal(err)
		}
		if stored(old) != tc.old || stored(fresh) != 4 {
			t.Errorf("after %v: the old keys' data has %d bytes, the new %d", tc.after, stored(old), stored(fresh))
		}
	}
	users, err := account.Opened().ListUsers(ctx, 0, 10, true)
	if err != nil || len(users) != 1 || users[0].UID != second.UID {
		t.Errorf("rows left: %+v, %v", users, err)
	}
}
