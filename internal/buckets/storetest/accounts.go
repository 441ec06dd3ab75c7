package storetest

import (
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

// deleteAccountRace: no account is deleted while a bucket is created in it.
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
	one := buckets.Key{ID: "HFA", Account: u.owner, Secret: []byte("\x00\xff secret"), Created: start}
	// An account is created with its keys, or not at all.
	with := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "with keys", Created: start}
	first := buckets.Key{ID: "HF1", Account: with.ID, Secret: []byte("first"), Created: start}
	must(t, "CreateAccount", s.CreateAccount(ctx, with, first))
	created, err := s.Keys(ctx, with.ID)
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
	_, err = s.Keys(ctx, none.Account)
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
	all, err := s.Keys(ctx, u.owner)
	must(t, "Keys", err)
	equal(t, "keys", all, []buckets.Key{one, two})
	all, err = s.Keys(ctx, other.owner)
	must(t, "Keys", err)
	equal(t, "keys of the other account", all, nil)
}
