package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

const rest = buckets.Moment(buckets.NameRest / 1000) // in microseconds

func nameChecks() []check {
	return []check{
		{"FirstSharedBucketClaims", firstClaims},
		{"WhatIsShared", whatIsShared},
		{"FreedNameRests", freedNameRests},
		{"OwnerTakesItAgain", ownerTakesItAgain},
		{"OfDeletedAccount", nameOfDeletedAccount},
		{"Free", freeName},
		{"Forget", forgetNames},
		{"MostResting", mostResting},
		{"TwoPublishAtOnce", publishRace},
		{"PublishAgainstDelete", publishAgainstDelete},
		{"PublishAgainstWithdraw", publishAgainstWithdraw},
		{"Hidden", hiddenBuckets},
		{"BucketsWithCORS", bucketsWithCORS},
		{"RandomSteps", randomNames},
	}
}

func (u *user) share(b buckets.BucketRef, shared bool) {
	u.t.Helper()
	must(u.t, "SetBucket", u.h.Store.SetBucket(u.t.Context(), u.owner, b, buckets.SettingsChange{PublicRead: &shared, Now: u.now}))
}

// wantHolder checks which account's bucket is found by its name alone.
func (u *user) wantHolder(what, name string, want buckets.AccountID) {
	u.t.Helper()
	got, err := u.h.Store.NameHolder(u.t.Context(), name)
	must(u.t, what+": NameHolder", err)
	equal(u.t, what+": holder", got, want)
}

func (u *user) claimOf(name string) buckets.NameClaim {
	u.t.Helper()
	n, err := u.h.Store.NameClaim(u.t.Context(), name)
	must(u.t, "NameClaim", err)
	return n
}

func firstClaims(t *testing.T, u *user) {
	const name = "photos"
	other := u.other()
	private := other.createBucket(name)
	u.wantHolder("a private bucket", name, "")
	_, err := u.h.Store.NameClaim(t.Context(), name)
	wantError(t, "a private bucket", err, buckets.ErrNoName)
	b := u.createBucket(name)
	u.share(b.BucketRef, true)
	u.wantHolder("the first public bucket", name, u.owner)
	want := buckets.NameClaim{Name: name, Owner: u.owner, Claimed: u.now}
	equal(t, "the claim", u.claimOf(name), want)

	other.now += hour
	other.share(private.BucketRef, true)
	u.wantHolder("a later public bucket", name, u.owner)
	other.share(private.BucketRef, false)
	other.deleteBucket(private.BucketRef)
	u.wantHolder("a later bucket that is gone", name, u.owner)
	u.now += 2 * hour
	u.share(b.BucketRef, true)
	rules := []buckets.CORSRule{{AllowedOrigins: []string{"*"}, AllowedMethods: []string{"GET"}}}
	must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{CORS: &rules}))
	equal(t, "the claim of a bucket that stays public", u.claimOf(name), want)
	all, err := u.h.Store.NameClaims(t.Context(), "", 10)
	must(t, "NameClaims", err)
	equal(t, "all claims", all, []buckets.NameClaim{want})
	all, err = u.h.Store.NameClaims(t.Context(), name, 10)
	must(t, "NameClaims", err)
	equal(t, "claims after it", len(all), 0)
}

// whatIsShared walks all settings that share a bucket, and compares the stores with IsShared.
func whatIsShared(t *testing.T, u *user) {
	for i := range 32 {
		bit := func(n int) bool { return i>>n&1 == 1 }
		s := buckets.BucketSettings{
			PublicRead: bit(0), PublicAccessBlock: buckets.PublicAccessBlock{Configured: bit(1) || bit(2), IgnoreACLs: bit(1), RestrictPolicy: bit(2)},
			Policy: buckets.Policy{Shared: bit(3), Public: bit(4)},
		}
		if bit(3) || bit(4) {
			s.Policy.Document = `{"Statement":[]}`
		}
		want := bit(0) && !bit(1) || bit(3) && !(bit(4) && bit(2))
		equal(t, "IsShared", s.IsShared(), want)
		name := fmt.Sprintf("shared%d", i)
		b := u.createBucket(name)
		set := []buckets.SettingsChange{{PublicRead: &s.PublicRead, Now: u.tick()}, {Policy: &s.Policy, Now: u.tick()}, {PublicAccessBlock: &s.PublicAccessBlock, Now: u.tick()}}
		for n := range set { // in every order
			must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, b.BucketRef, set[(n+i)%len(set)]))
		}
		holder := buckets.AccountID("")
		if want {
			holder = u.owner
		}
		u.wantHolder(fmt.Sprintf("%+v", s), name, holder)
		other := u.other()
		hidden := other.createBucket("hidden" + name)
		twin := u.createBucket("hidden" + name)
		u.share(twin.BucketRef, true)
		must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), other.owner, hidden.BucketRef,
			buckets.SettingsChange{PublicRead: &s.PublicRead, Policy: &s.Policy, PublicAccessBlock: &s.PublicAccessBlock, Now: u.tick()}))
		all, err := u.h.Store.HiddenBuckets(t.Context(), 100)
		must(t, "HiddenBuckets", err)
		equal(t, fmt.Sprintf("hidden: %+v", s), slices.ContainsFunc(all, func(b buckets.Bucket) bool { return b.Name == hidden.Name }), want)
	}
}

func freedNameRests(t *testing.T, u *user) {
	const name = "photos"
	for what, free := range map[string]func(buckets.Bucket){
		"private": func(b buckets.Bucket) { u.share(b.BucketRef, false) },
		"deleted": func(b buckets.Bucket) { u.deleteBucket(b.BucketRef) },
		"blocked": func(b buckets.Bucket) {
			block := buckets.PublicAccessBlock{Configured: true, IgnoreACLs: true}
			must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{PublicAccessBlock: &block, Now: u.now}))
		},
	} {
		name := name + what
		b := u.createBucket(name)
		u.share(b.BucketRef, true)
		freed := u.tick()
		free(b)
		u.wantHolder(what, name, "")
		claim := u.claimOf(name)
		equal(t, what+": freed", claim.Freed, freed)
		equal(t, what+": rests until", claim.RestsUntil(), freed+rest)

		other := u.other()
		taken := other.createBucket(name)
		other.now = freed + rest - second
		other.share(taken.BucketRef, true)
		u.wantHolder(what+", while it rests", name, "")
		other.now = freed + rest
		other.share(taken.BucketRef, true)
		u.wantHolder(what+", 30 days later", name, other.owner)
		equal(t, what+": the new claim", u.claimOf(name), buckets.NameClaim{Name: name, Owner: other.owner, Claimed: other.now})
	}
}

func ownerTakesItAgain(t *testing.T, u *user) {
	const name = "photos"
	b := u.createBucket(name)
	u.share(b.BucketRef, true)
	u.tick()
	u.deleteBucket(b.BucketRef)
	b = u.createBucket(name)
	u.wantHolder("created again", name, "")
	u.tick()
	u.share(b.BucketRef, true)
	u.wantHolder("public again", name, u.owner)
	equal(t, "the claim", u.claimOf(name), buckets.NameClaim{Name: name, Owner: u.owner, Claimed: u.now})
	if err := u.h.Store.SetBucket(t.Context(), u.owner, newRef(name), buckets.SettingsChange{PublicRead: new(bool), Now: u.now}); err == nil {
		t.Error("a bucket with another ID was changed")
	}
	u.wantHolder("a change that failed", name, u.owner)
	u.wantHolder("a public bucket that is not empty", name, u.owner)
	u.bucket = b
	u.put("a")
	wantError(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), u.owner, b.BucketRef, u.tick()), buckets.ErrBucketNotEmpty)
	u.wantHolder("a delete that failed", name, u.owner)
}

// nameOfDeletedAccount checks that a name rests even if nobody can take it again.
func nameOfDeletedAccount(t *testing.T, u *user) {
	const name = "photos"
	gone := u.other()
	b := gone.createBucket(name)
	gone.share(b.BucketRef, true)
	wantError(t, "DeleteAccount", u.h.Accounts.DeleteAccount(t.Context(), gone.owner), buckets.ErrAccountHasBucket)
	u.wantHolder("an account that was not deleted", name, gone.owner)
	gone.deleteBucket(b.BucketRef)
	gone.deleteBucket(gone.bucket.BucketRef)
	must(t, "DeleteAccount", u.h.Accounts.DeleteAccount(t.Context(), gone.owner))
	mine := u.createBucket(name)
	u.share(mine.BucketRef, true)
	u.wantHolder("while it rests", name, "")
	u.now = gone.now + rest
	u.share(mine.BucketRef, true)
	u.wantHolder("30 days later", name, u.owner)
}

func freeName(t *testing.T, u *user) {
	const name = "photos"
	_, err := u.h.Store.FreeName(t.Context(), name)
	wantError(t, "FreeName", err, buckets.ErrNoName)
	b, other := u.createBucket(name), u.other()
	taken := other.createBucket(name)
	u.share(b.BucketRef, true)
	want := u.claimOf(name)
	freed, err := u.h.Store.FreeName(t.Context(), name)
	must(t, "FreeName", err)
	equal(t, "freed", freed, want)
	u.wantHolder("freed", name, "")
	other.share(taken.BucketRef, true)
	u.wantHolder("free for everybody", name, other.owner)
	other.deleteBucket(taken.BucketRef)
	_, err = u.h.Store.FreeName(t.Context(), name)
	must(t, "FreeName of a name that rests", err)
	u.share(b.BucketRef, true)
	u.wantHolder("the rest ended", name, u.owner)
}

func forgetNames(t *testing.T, u *user) {
	for i, name := range []string{"first", "second", "third", "active"} {
		b := u.createBucket(name)
		u.share(b.BucketRef, true)
		u.now = start + buckets.Moment(i+1)*hour
		if name != "active" {
			u.deleteBucket(b.BucketRef)
		}
	}
	forget := func(before buckets.Moment, limit, want int, left ...string) {
		t.Helper()
		n, err := u.h.Store.ForgetNames(t.Context(), before, limit)
		must(t, "ForgetNames", err)
		equal(t, "forgotten", n, want)
		all, err := u.h.Store.NameClaims(t.Context(), "", 10)
		must(t, "NameClaims", err)
		var names []string
		for i := range all {
			names = append(names, all[i].Name)
		}
		equal(t, "left", names, left)
	}
	forget(start+hour-1, 9, 0, "active", "first", "second", "third")
	forget(start+2*hour, 1, 1, "active", "second", "third")
	forget(start+2*hour, 9, 1, "active", "third")
	forget(start+year, 9, 1, "active")
	forget(start+year, 9, 0, "active")
}

// mostResting checks that an account cannot keep more than MaxResting names from others.
func mostResting(t *testing.T, u *user) {
	const more = 3
	for i := range buckets.MaxResting + more {
		u.now += second
		b := u.createBucket(fmt.Sprintf("name-%d", i))
		u.share(b.BucketRef, true)
		u.deleteBucket(b.BucketRef)
	}
	all, err := u.h.Store.NameClaims(t.Context(), "", 2*buckets.MaxResting)
	must(t, "NameClaims", err)
	equal(t, "names that rest", len(all), buckets.MaxResting)
	for i := range more {
		_, err := u.h.Store.NameClaim(t.Context(), fmt.Sprintf("name-%d", i))
		wantError(t, "the name that was freed first", err, buckets.ErrNoName)
	}
	u.claimOf(fmt.Sprintf("name-%d", more))
}

func publishRace(t *testing.T, u *user) {
	const publishers = 8
	for round := range 5 {
		name := fmt.Sprintf("race%d", round)
		users := make([]*user, publishers)
		refs := make([]buckets.BucketRef, publishers)
		for i := range users {
			users[i] = u.other()
			refs[i] = users[i].createBucket(name).BucketRef
		}
		for _, err := range testdb.Concurrently(publishers, func(i int) error {
			return users[i].h.Store.SetBucket(t.Context(), users[i].owner, refs[i], buckets.SettingsChange{PublicRead: new(true), Now: start})
		}) {
			must(t, "SetBucket", err)
		}
		holder, err := u.h.Store.NameHolder(t.Context(), name)
		must(t, "NameHolder", err)
		if !slices.ContainsFunc(users, func(o *user) bool { return o.owner == holder }) {
			t.Errorf("round %d: the holder is %q", round, holder)
		}
		all, err := u.h.Store.HiddenBuckets(t.Context(), 1000)
		must(t, "HiddenBuckets", err)
		n := 0
		for i := range all {
			if all[i].Name == name {
				n++
			}
		}
		equal(t, "buckets without the name", n, publishers-1)
	}
}

func publishAgainstDelete(t *testing.T, u *user) {
	for round := range 20 {
		b := u.createBucket(fmt.Sprintf("gone%d", round))
		errs := testdb.Concurrently(2, func(i int) error {
			if i == 0 {
				return u.h.Store.DeleteBucket(t.Context(), u.owner, b.BucketRef, start)
			}
			return u.h.Store.SetBucket(t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{PublicRead: new(true), Now: start})
		})
		must(t, "DeleteBucket", errs[0])
		suite.Winners(t, errs[1:], is(buckets.ErrNoBucket))
		u.wantHolder("a deleted bucket", b.Name, "")
	}
}

func publishAgainstWithdraw(t *testing.T, u *user) {
	for round := range 20 {
		b := u.createBucket(fmt.Sprintf("both%d", round))
		for _, err := range testdb.Concurrently(4, func(i int) error {
			shared := i%2 == 0
			return u.h.Store.SetBucket(t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{PublicRead: &shared, Now: start})
		}) {
			must(t, "SetBucket", err)
		}
		now, err := u.h.Store.Bucket(t.Context(), u.owner, b.Name)
		must(t, "Bucket", err)
		holder := buckets.AccountID("")
		if now.Settings.IsShared() {
			holder = u.owner
		}
		u.wantHolder("the settings that were written last", b.Name, holder)
	}
}

func hiddenBuckets(t *testing.T, u *user) {
	const name = "photos"
	other, third := u.other(), u.other()
	for _, o := range []*user{u, other, third} {
		b := o.createBucket(name)
		if o != third {
			o.share(b.BucketRef, true)
		}
	}
	all, err := u.h.Store.HiddenBuckets(t.Context(), 10)
	must(t, "HiddenBuckets", err)
	equal(t, "hidden buckets", len(all), 1)
	b, err := other.h.Store.Bucket(t.Context(), other.owner, name)
	must(t, "Bucket", err)
	equal(t, "the hidden bucket", all[0], b)
	mine, err := u.h.Store.Bucket(t.Context(), u.owner, name)
	must(t, "Bucket", err)
	u.deleteBucket(mine.BucketRef)
	all, err = u.h.Store.HiddenBuckets(t.Context(), 10)
	must(t, "HiddenBuckets", err)
	equal(t, "hidden by a name that rests", len(all), 1)
}

func bucketsWithCORS(t *testing.T, u *user) {
	const name = "photos"
	rule := func(origin string) []buckets.CORSRule {
		return []buckets.CORSRule{{AllowedOrigins: []string{origin}, AllowedMethods: []string{"GET"}}}
	}
	var want []buckets.Bucket
	users := []*user{u, u.other(), u.other(), u.other()}
	for i, o := range users {
		b := o.createBucket(name)
		if i == 0 {
			continue // without rules
		}
		rules := rule(fmt.Sprint(i))
		must(t, "SetBucket", o.h.Store.SetBucket(t.Context(), o.owner, b.BucketRef, buckets.SettingsChange{CORS: &rules}))
		want = append(want, buckets.Bucket{BucketRef: b.BucketRef, Owner: o.owner, Settings: buckets.BucketSettings{CORS: rules}})
	}
	read := func(limit int) []buckets.Bucket {
		t.Helper()
		all, err := u.h.Store.BucketsWithCORS(t.Context(), name, limit)
		must(t, "BucketsWithCORS", err)
		return all
	}
	slices.SortFunc(want, func(a, b buckets.Bucket) int { return cmp.Compare(a.Owner, b.Owner) })
	equal(t, "by owner", read(10), want)
	last := want[2]
	for _, o := range users {
		if o.owner == last.Owner {
			o.share(last.BucketRef, true)
		}
	}
	want = append([]buckets.Bucket{last}, want[:2]...)
	equal(t, "the claimed one first", read(10), want)
	equal(t, "limited", read(1), want[:1])
	all, err := u.h.Store.BucketsWithCORS(t.Context(), "absent", 10)
	must(t, "BucketsWithCORS", err)
	equal(t, "a name that no bucket has", len(all), 0)
}
