package tokenserver_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

type minter struct{}

func (minter) Mint(tokenserver.Claims) (token, key string, err error) { return "token", "key", nil }

// TestInherit checks that a new storage user inherits the quota before its first token is issued, and at each sign-in
// until the old user is cleaned up.
func TestInherit(t *testing.T) {
	t.Parallel()
	var asked [][]int64 // the new user, then the users whose quota it inherits
	var away error
	s := newService(t, func(o *tokenserver.Options) {
		o.Minter = minter{}
		o.Config.AllowNewUsers = true
		o.Inherit = func(_ context.Context, from []tokenserver.User, to *tokenserver.User) error {
			all := []int64{to.UID}
			for i := range from {
				all = append(all, from[i].UID)
			}
			asked = append(asked, all)
			return away
		}
	})
	signIn := func(name string, generation int64) error {
		_, err := s.SignIn(t.Context(), tokenserver.Request{
			Identity: tokenserver.Identity{FxAUID: name, Generation: tokenserver.At(generation)},
			Keys:     tokenserver.KeyID{ChangedAt: tokenserver.At(generation), ClientState: string('a'+rune(generation)) + "0"},
		})
		return err
	}
	want := func(what string, want ...[]int64) {
		t.Helper()
		if !slices.EqualFunc(asked, want, slices.Equal) {
			t.Errorf("%s: asked for %v, want %v", what, asked, want)
		}
		asked = nil
	}
	_, err := s.store.AddNode(t.Context(), tokenserver.Node{URL: tokenserver.Self, Available: 9, Capacity: 9})
	must(t, err)
	must(t, signIn("a", 1))
	want("a first sign-in")
	away = errcode.New(errcode.Unavailable, "the storage is unavailable")
	if err := signIn("a", 2); !errors.Is(err, away) {
		t.Errorf("while the storage is unavailable: %v", err)
	}
	want("new keys", []int64{2, 1})
	away = nil
	must(t, signIn("a", 2))
	want("once more", []int64{2, 1})
	must(t, signIn("a", 3))
	want("newer keys", []int64{3, 2, 1})
	s.hands.Set(t0.Add(8 * day))
	must(t, signIn("a", 3))
	want("after the grace")

	must(t, signIn("b", 1))
	_, err = s.DeleteAccount(t.Context(), s.account("b"))
	must(t, err)
	must(t, signIn("b", 2))
	want("an account that was deleted")
}
