package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func accountChecks() []check {
	return []check{
		{"Account", accounts},
		{"CreateRace", createAccountRace},
		{"DeleteRace", deleteAccountRace},
		{"Keys", accessKeys},
		{"ChangeKey", changeKey},
		{"ChangeKeyRace", changeKeyRace},
	}
}

func accounts(t *testing.T, u *user) {
	ctx, s := t.Context(), u.h.Accounts
	a := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "alice", Created: start, Quota: buckets.Quota{Objects: 1, Bytes: 2}}
	must(t, "CreateAccount", s.CreateAccount(ctx, a))
	got, err := s.Account(ctx, "alice")
	must(t, "Account", err)
	equal(t, "by name", got, a)
	got, err = s.AccountByID(ctx, a.ID)
	must(t, "AccountByID", err)
	equal(t, "by ID", got, a)
	wantError(t, "the same name", s.CreateAccount(ctx, buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "alice"}), buckets.ErrAccountExists)
	wantError(t, "the same ID", s.CreateAccount(ctx, buckets.Account{ID: a.ID, Name: "bob"}), buckets.ErrAccountExists)
	bob := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "bob", Created: start}
	must(t, "CreateAccount", s.CreateAccount(ctx, bob))
	list := func(after string, limit int) []buckets.Account {
		all, err := s.ListAccounts(ctx, after, limit)
		must(t, "ListAccounts", err)
		return all
	}
	equal(t, "a page", list("", 1), []buckets.Account{a})
	equal(t, "the next page", list("alice", 1), []buckets.Account{bob})

	alice := &user{t: t, h: u.h, owner: a.ID, now: start}
	alice.bucket = alice.createBucket("bucket")
	must(t, "CreateKey", s.CreateKey(ctx, buckets.Key{ID: "K", Account: a.ID, Secret: []byte("s"), Created: start}))
	wantError(t, "with a bucket", s.DeleteAccount(ctx, a.ID), buckets.ErrAccountHasBucket)
	alice.deleteBucket(alice.ref())
	must(t, "DeleteAccount", s.DeleteAccount(ctx, a.ID))
	wantError(t, "again", s.DeleteAccount(ctx, a.ID), buckets.ErrNoAccount)
	_, err = s.Account(ctx, "alice")
	wantError(t, "Account", err, buckets.ErrNoAccount)
	_, err = s.AccountByID(ctx, a.ID)
	wantError(t, "AccountByID", err, buckets.ErrNoAccount)
	_, err = s.Key(ctx, "K")
	wantError(t, "Key", err, buckets.ErrNoKey)
	_, err = u.h.Store.CreateBucket(ctx, a.ID, newRef("bucket"), start)
	wantError(t, "CreateBucket", err, buckets.ErrNoAccount)
	wantError(t, "SetQuota", u.h.Counters.SetQuota(ctx, a.ID, buckets.BucketRef{}, buckets.Quota{}), buckets.ErrNoAccount)
	a.ID = buckets.AccountID(buckets.NewUUID())
	must(t, "the name again", s.CreateAccount(ctx, a))
}

func createAccountRace(t *testing.T, u *user) {
	errs := testdb.Concurrently(parallel, func(int) error {
		return u.h.Accounts.CreateAccount(t.Context(), buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "race", Created: start})
	})
	equal(t, "winners", suite.Winners(t, errs, is(buckets.ErrAccountExists)), 1)
}

func deleteAccountRace(t *testing.T, u *user) {
	for range 20 {
		a := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "race", Created: start}
		must(t, "CreateAccount", u.h.Accounts.CreateAccount(t.Context(), a))
		errs := testdb.Concurrently(2, func(i int) error {
			if i == 0 {
				return u.h.Accounts.DeleteAccount(t.Context(), a.ID)
			}
			_, err := u.h.Store.CreateBucket(t.Context(), a.ID, newRef("bucket"), start)
			return err
		})
		if errs[0] == nil {
			wantError(t, "CreateBucket in a deleted account", errs[1], buckets.ErrNoAccount)
			continue
		}
		wantError(t, "DeleteAccount", errs[0], buckets.ErrAccountHasBucket)
		must(t, "CreateBucket", errs[1])
		b, err := u.h.Store.Bucket(t.Context(), a.ID, "bucket")
		must(t, "Bucket", err)
		must(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), a.ID, b.BucketRef, start))
		must(t, "DeleteAccount", u.h.Accounts.DeleteAccount(t.Context(), a.ID))
	}
}

func accessKeys(t *testing.T, u *user) {
	ctx, s := t.Context(), u.h.Accounts
	one := buckets.Key{ID: "HFA", Account: u.owner, Secret: []byte("\x00\xff secret"), Created: start, KeyTerms: keyTerms()}
	// CreateAccount creates the account with all its keys, or nothing.
	with := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "with keys", Created: start}
	first := buckets.Key{ID: "HF1", Account: with.ID, Secret: []byte("first"), Created: start}
	must(t, "CreateAccount", s.CreateAccount(ctx, with, first))
	created, err := s.Keys(ctx, with.ID, "", buckets.MaxPage)
	must(t, "Keys", err)
	equal(t, "first key", created, []buckets.Key{first})
	without := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "without keys", Created: start}
	first.Account = without.ID
	wantError(t, "the same key", s.CreateAccount(ctx, without, first), buckets.ErrKeyExists)
	_, err = s.Account(ctx, without.Name)
	wantError(t, "Account", err, buckets.ErrNoAccount)

	two := buckets.Key{ID: "HFB", Account: u.owner, Secret: []byte(strings.Repeat("x", 1000)), Created: start + 1}
	must(t, "CreateKey", s.CreateKey(ctx, two))
	must(t, "CreateKey", s.CreateKey(ctx, one))
	wantError(t, "the same ID", s.CreateKey(ctx, one), buckets.ErrKeyExists)
	other := u.other()
	wantError(t, "the ID of another account's key", s.CreateKey(ctx, buckets.Key{ID: "HFA", Account: other.owner, Secret: []byte("x")}), buckets.ErrKeyExists)
	none := buckets.Key{ID: "HFC", Account: buckets.AccountID(buckets.NewUUID()), Secret: []byte("x")}
	wantError(t, "of no account", s.CreateKey(ctx, none), buckets.ErrNoAccount)
	_, err = s.Keys(ctx, none.Account, "", buckets.MaxPage)
	wantError(t, "keys of no account", err, buckets.ErrNoAccount)
	_, err = s.Key(ctx, "HFC")
	wantError(t, "Key", err, buckets.ErrNoKey)
	wantError(t, "RevokeKey", s.RevokeKey(ctx, "HFC", u.now), buckets.ErrNoKey)

	must(t, "RevokeKey", s.RevokeKey(ctx, "HFA", u.tick()))
	one.Revoked = u.now
	must(t, "RevokeKey again", s.RevokeKey(ctx, "HFA", u.tick()))
	got, err := s.Key(ctx, "HFA")
	must(t, "Key", err)
	equal(t, "key", got, one)
	all, err := s.Keys(ctx, u.owner, "", buckets.MaxPage)
	must(t, "Keys", err)
	equal(t, "keys", all, []buckets.Key{one, two})
	all, err = s.Keys(ctx, u.owner, "", 1)
	must(t, "Keys", err)
	equal(t, "a page", all, []buckets.Key{one})
	all, err = s.Keys(ctx, u.owner, one.ID, 1)
	must(t, "Keys", err)
	equal(t, "the next page", all, []buckets.Key{two})
	var ids []string
	for after, more := "", true; more; {
		page, err := s.ListKeys(ctx, after, 2)
		must(t, "ListKeys", err)
		for _, k := range page {
			after = k.ID
			ids = append(ids, k.ID)
		}
		more = len(page) == 2
	}
	equal(t, "keys of all accounts", ids, []string{first.ID, one.ID, two.ID})
	all, err = s.Keys(ctx, other.owner, "", buckets.MaxPage)
	must(t, "Keys", err)
	equal(t, "keys of the other account", all, nil)
}

func keyTerms() buckets.KeyTerms {
	return buckets.KeyTerms{Name: "upload «ü»", Expires: start + 7*second, Limits: buckets.KeyLimits{
		Buckets: []string{"photos", "logs-*"}, Prefix: `a/"ü"\`, Rights: []buckets.Right{buckets.RightRead, buckets.RightList},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
	}}
}

func changeKey(t *testing.T, u *user) {
	ctx, s := t.Context(), u.h.Accounts
	k := buckets.Key{ID: "HFA", Account: u.owner, Secret: []byte("s"), Created: start}
	must(t, "CreateKey", s.CreateKey(ctx, k))
	wantError(t, "of no key", s.ChangeKey(ctx, "HFB", buckets.KeyTerms{}, keyTerms()), buckets.ErrNoKey)
	for _, terms := range []buckets.KeyTerms{keyTerms(), {Name: "only a name"}, {}} {
		for _, other := range []buckets.KeyTerms{{Name: "other"}, {Expires: 1}, {Limits: buckets.KeyLimits{Prefix: "x"}}} {
			wantError(t, "of other terms", s.ChangeKey(ctx, k.ID, other, buckets.KeyTerms{Name: "lost"}), buckets.ErrKeyChanged)
		}
		must(t, "ChangeKey", s.ChangeKey(ctx, k.ID, k.KeyTerms, terms))
		k.KeyTerms = terms
		got, err := s.Key(ctx, k.ID)
		must(t, "Key", err)
		equal(t, "key", got, k)
		all, err := s.Keys(ctx, u.owner, "", buckets.MaxPage)
		must(t, "Keys", err)
		equal(t, "keys", all, []buckets.Key{k})
	}
	must(t, "RevokeKey", s.RevokeKey(ctx, k.ID, u.tick()))
	k.Revoked = u.now
	wantError(t, "of a revoked key", s.ChangeKey(ctx, k.ID, k.KeyTerms, keyTerms()), buckets.ErrNoKey)
	got, err := s.Key(ctx, k.ID)
	must(t, "Key", err)
	equal(t, "the revoked key", got, k)
}

func changeKeyRace(t *testing.T, u *user) {
	ctx, s := t.Context(), u.h.Accounts
	for i := range 20 {
		id := fmt.Sprintf("HF%d", i)
		must(t, "CreateKey", s.CreateKey(ctx, buckets.Key{ID: id, Account: u.owner, Secret: []byte("s"), Created: start}))
		errs := testdb.Concurrently(parallel, func(n int) error {
			if n == 0 {
				return s.RevokeKey(ctx, id, start)
			}
			terms := keyTerms()
			terms.Name = fmt.Sprint(n)
			return s.ChangeKey(ctx, id, buckets.KeyTerms{}, terms)
		})
		must(t, "RevokeKey", errs[0])
		refused := func(err error) bool { return errors.Is(err, buckets.ErrNoKey) || errors.Is(err, buckets.ErrKeyChanged) }
		if won := suite.Winners(t, errs[1:], refused); won > 1 {
			t.Errorf("%d changes of the same terms", won)
		}
		k, err := s.Key(ctx, id)
		must(t, "Key", err)
		equal(t, "revoked", k.Revoked, start)
	}
}
