package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func bucketChecks() []check {
	return []check{
		{"Create", createBucket},
		{"CreateRace", createBucketRace},
		{"List", listBuckets},
		{"Settings", bucketSettings},
		{"SettingsRace", changeSettingsRace},
		{"SettingsAtOnce", settingsAtOnce},
		{"ReplaceRules", replaceRules},
		{"Find", findBuckets},
		{"Delete", deleteBucket},
		{"DeletedAndCreatedAgain", staleRefs},
		{"PutsAgainstDelete", putsAgainstDelete},
	}
}

func findBuckets(t *testing.T, u *user) {
	other := u.other()
	unique := "f" + ident.New()
	for i, name := range []string{"b", "a", "a.c", "ab", "-x"} {
		for _, o := range []*user{u, other}[:1+i%2] {
			_, err := o.h.Store.CreateBucket(t.Context(), o.owner, newRef(unique+name), o.tick())
			must(t, "CreateBucket", err)
		}
	}
	for prefix, want := range map[string]string{"": "-x,a,a,a.c,ab,ab,b", "a": "a,a,a.c,ab,ab", "a.": "a.c", "-": "-x", "c": "", "%": "", "_": ""} {
		for _, limit := range []int{1, 3, 100} {
			found, err := u.h.Store.FindBuckets(t.Context(), unique+prefix, limit)
			must(t, "FindBuckets", err)
			var names []string
			for i := range found {
				names = append(names, strings.TrimPrefix(found[i].Name, unique))
				if i > 0 && found[i].Name == found[i-1].Name && found[i].Owner <= found[i-1].Owner {
					t.Errorf("%s: out of order: %+v", prefix, found)
				}
			}
			all := strings.Split(want, ",")
			equal(t, prefix, strings.Join(names, ","), strings.Join(all[:min(limit, len(all))], ","))
		}
	}
}

func createBucket(t *testing.T, u *user) {
	ref := newRef("photos")
	b, err := u.h.Store.CreateBucket(t.Context(), u.owner, ref, u.tick())
	must(t, "CreateBucket", err)
	want := buckets.Bucket{BucketRef: ref, Owner: u.owner, Created: u.now}
	equal(t, "created", b, want)
	b, err = u.h.Store.Bucket(t.Context(), u.owner, "photos")
	must(t, "Bucket", err)
	equal(t, "read", b, want)

	b, err = u.h.Store.CreateBucket(t.Context(), u.owner, newRef("photos"), u.tick())
	wantError(t, "a second one", err, buckets.ErrBucketExists)
	equal(t, "a second one is the first", b, want)
	_, err = u.h.Store.Bucket(t.Context(), u.owner, "photo")
	wantError(t, "another name", err, buckets.ErrNoBucket)
}

func createBucketRace(t *testing.T, u *user) {
	got := make([]buckets.Bucket, parallel)
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		got[i], err = u.h.Store.CreateBucket(t.Context(), u.owner, newRef("race"), start)
		return err
	})
	equal(t, "winners", suite.Winners(t, errs, is(buckets.ErrBucketExists)), 1)
	for i := range got {
		equal(t, "bucket", got[i], got[0])
	}
}

func listBuckets(t *testing.T, u *user) {
	all := []string{"a--", "a-b", "a.b", "a0b", "aaa", "bucket", "zzz"}
	for _, i := range []int{3, 0, 6, 1, 4, 2} {
		u.createBucket(all[i])
	}
	names := func(q buckets.BucketQuery) (names []string, more bool) {
		page, more, err := u.h.Store.Buckets(t.Context(), u.owner, q)
		must(t, "Buckets", err)
		for _, b := range page {
			equal(t, "owner", b.Owner, u.owner)
			names = append(names, b.Name)
		}
		return names, more
	}
	want := func(q buckets.BucketQuery, all []string, more bool) {
		t.Helper()
		got, gotMore := names(q)
		equal(t, "buckets", got, all)
		equal(t, "more", gotMore, more)
	}
	all = slices.DeleteFunc(all, func(s string) bool { return s == "bucket" })
	all = slices.Insert(all, 5, "bucket")
	want(buckets.BucketQuery{Limit: 10}, all, false)
	want(buckets.BucketQuery{Limit: 7}, all, false)
	want(buckets.BucketQuery{Limit: 6}, all[:6], true)
	want(buckets.BucketQuery{Limit: 2, After: "a-b"}, all[2:4], true)
	want(buckets.BucketQuery{Limit: 9, Prefix: "a"}, all[:5], false)
	want(buckets.BucketQuery{Limit: 5, Prefix: "a"}, all[:5], false)
	want(buckets.BucketQuery{Limit: 1, Prefix: "a-"}, all[:1], true)
	want(buckets.BucketQuery{Limit: 1, Prefix: "a-", After: "a--"}, all[1:2], false)
	want(buckets.BucketQuery{Limit: 9, Prefix: "b", After: "a"}, []string{"bucket"}, false)
	want(buckets.BucketQuery{Limit: 9, Prefix: "b", After: "c"}, nil, false)
	want(buckets.BucketQuery{Limit: 9, Prefix: "a_"}, nil, false)
	want(buckets.BucketQuery{Limit: 9, Prefix: "%"}, nil, false)
	want(buckets.BucketQuery{Limit: 9, Bytes: 1}, all[:1], true)
	want(buckets.BucketQuery{Limit: 9, Bytes: 1, After: all[len(all)-2]}, all[len(all)-1:], false)
	want(buckets.BucketQuery{Limit: 9, Bytes: 1 << 20}, all, false)
}

var publicRead = buckets.SettingsChange{PublicRead: new(true)}

func settingsAtOnce(t *testing.T, u *user) {
	name := "n" + buckets.NewUUID()
	b := u.createBucket(name)
	stores := []buckets.Store{u.h.Store}
	if u.h.Second != nil {
		stores = append(stores, u.h.Second(t))
	}
	reads := map[string]func(buckets.Store) ([]buckets.Bucket, error){
		"Bucket": func(s buckets.Store) ([]buckets.Bucket, error) {
			b, err := s.Bucket(t.Context(), u.owner, name)
			return []buckets.Bucket{b}, err
		},
		"Find": func(s buckets.Store) ([]buckets.Bucket, error) {
			b, _, err := s.Find(t.Context(), u.owner, name, "absent")
			if errors.Is(err, buckets.ErrNoObject) {
				err = nil
			}
			return []buckets.Bucket{b}, err
		},
		"BucketsWithCORS": func(s buckets.Store) ([]buckets.Bucket, error) { return s.BucketsWithCORS(t.Context(), name, 2) },
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, s := range stores {
		for _, read := range reads {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_, _ = read(s)
					}
				}
			})
		}
	}
	defer readers.Wait()
	defer close(done)
	for i := range 10 {
		rules := []buckets.CORSRule{{ID: strconv.Itoa(i), AllowedOrigins: []string{"*"}, AllowedMethods: []string{"GET"}}}
		must(t, "SetBucket", stores[i%len(stores)].SetBucket(t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{CORS: &rules}))
		for at, s := range stores {
			for what, read := range reads {
				all, err := read(s)
				must(t, what, err)
				equal(t, fmt.Sprintf("rules of %s, process %d", what, at), all[0].Settings.CORS, rules)
			}
		}
	}
}

func changeSettingsRace(t *testing.T, u *user) {
	for i := range 5 {
		want := u.bucket
		want.Settings = buckets.BucketSettings{
			PublicRead: i%2 == 0, Tags: map[string]string{strconv.Itoa(i): ""},
			CORS:   []buckets.CORSRule{{ID: strconv.Itoa(i), AllowedOrigins: []string{"*"}, AllowedMethods: []string{"GET"}}},
			Policy: buckets.Policy{Document: strconv.Itoa(i), Accounts: map[string]buckets.AccountID{"main": u.owner}},
		}
		s := &want.Settings
		changes := []buckets.SettingsChange{{PublicRead: &s.PublicRead}, {CORS: &s.CORS}, {Tags: &s.Tags}, {Policy: &s.Policy}}
		for _, err := range testdb.Concurrently(len(changes), func(i int) error {
			return u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), changes[i])
		}) {
			must(t, "SetBucket", err)
		}
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		equal(t, "bucket", b, want)
	}
}

func replaceRules(t *testing.T, u *user) {
	changed := func() buckets.Moment {
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		return b.Settings.Lifecycle.Changed
	}
	set := func(was *buckets.Moment, now buckets.Moment) error {
		l := buckets.Lifecycle{Changed: now}
		if now != 0 {
			l.Rules, l.Bucket = []buckets.LifecycleRule{{ID: "a", AbortDays: 1, Filter: &buckets.LifecycleFilter{}}}, u.bucket.Name
		}
		return u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), buckets.SettingsChange{Lifecycle: &l, LifecycleWas: was})
	}
	none, first, second := buckets.Moment(0), u.now, u.now+1
	wantError(t, "other rules than none", set(&first, second), buckets.ErrPrecondition)
	must(t, "the first rules", set(&none, first))
	wantError(t, "rules instead of none", set(&none, second), buckets.ErrPrecondition)
	must(t, "other settings", u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), publicRead))
	must(t, "rules instead of the first", set(&first, second))
	wantError(t, "no rules instead of the first", set(&first, 0), buckets.ErrPrecondition)
	must(t, "rules instead of any", set(nil, first))
	must(t, "no rules", set(&first, 0))
	equal(t, "changed", changed(), none)

	const writers, each = 4, 5
	for _, err := range testdb.Concurrently(writers, func(int) error {
		for range each {
			for {
				was := changed()
				if err := set(&was, was+1); err == nil {
					break
				} else if !errors.Is(err, buckets.ErrPrecondition) {
					return err
				}
			}
		}
		return nil
	}) {
		must(t, "SetBucket", err)
	}
	equal(t, "changes", changed(), writers*each)
}

func bucketSettings(t *testing.T, u *user) {
	for _, s := range []buckets.BucketSettings{
		{PublicRead: true},
		{
			CORS: []buckets.CORSRule{{ID: "1", AllowedOrigins: []string{"https://*.example"}, AllowedMethods: []string{"GET", "PUT"}, AllowedHeaders: []string{"*"}, ExposeHeaders: []string{"etag"}, MaxAgeSeconds: 60}},
			Tags: map[string]string{"ü": "'\"\\%"},
		},
		{Policy: buckets.Policy{Document: "{\"Id\": \"\\u0000\"}\n", Accounts: map[string]buckets.AccountID{"main": u.owner}}},
		{PublicAccessBlock: buckets.PublicAccessBlock{Configured: true, BlockPolicy: true, IgnoreACLs: true}, OwnerEnforced: true},
		{OwnerPreferred: true},
		{},
	} {
		must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), buckets.SettingsChange{PublicRead: &s.PublicRead, CORS: &s.CORS, Tags: &s.Tags, Policy: &s.Policy, PublicAccessBlock: &s.PublicAccessBlock, OwnerEnforced: &s.OwnerEnforced, OwnerPreferred: &s.OwnerPreferred}))
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		want := u.bucket
		want.Settings = s
		equal(t, "bucket", b, want)
		page, _, err := u.h.Store.Buckets(t.Context(), u.owner, buckets.BucketQuery{Limit: 10})
		must(t, "Buckets", err)
		equal(t, "listed", page, []buckets.Bucket{want})
	}
}

func deleteBucket(t *testing.T, u *user) {
	o := u.put("a")
	wantError(t, "with an object", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.tick()), buckets.ErrBucketNotEmpty)
	u.wantBodies(ids(o), nil)
	u.delete("a")
	u.deleteBucket(u.ref())
	_, err := u.h.Store.Bucket(t.Context(), u.owner, "bucket")
	wantError(t, "Bucket", err, buckets.ErrNoBucket)
	wantError(t, "again", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.tick()), buckets.ErrNoBucket)
	u.wantBodies(nil, ids(o))
	equal(t, "usage", u.usage(), buckets.AccountUsage{})
}

func staleRefs(t *testing.T, u *user) {
	old := u.bucket
	id := u.createUpload("up", u.now)
	u.deleteBucket(u.ref())
	refused := func(what string) {
		t.Helper()
		for name, call := range u.writesTo(old.BucketRef, id) {
			wantError(t, what+": "+name, call(), buckets.ErrNoBucket)
		}
	}
	refused("deleted")
	u.bucket = u.createBucket("bucket")
	o := u.put("a")
	refused("created again")
	equal(t, "the object", u.get("a").ID, o.ID)
	u.wantBodies(ids(o), nil)
	u.wantUsage(1, 10)
	_, err := u.h.Store.Get(t.Context(), u.owner, old.ID, "a")
	wantError(t, "Get by the old ID", err, buckets.ErrNoObject)
}

func (u *user) writesTo(b buckets.BucketRef, id buckets.UploadID) map[string]func() error {
	ctx, s, up := u.t.Context(), u.h.Store, u.h.Uploads
	text := "text/html"
	return map[string]func() error{
		"SetBucket":    func() error { return s.SetBucket(ctx, u.owner, b, publicRead) },
		"DeleteBucket": func() error { return s.DeleteBucket(ctx, u.owner, b, u.now) },
		"Put": func() error {
			_, err := s.Put(ctx, u.owner, b, buckets.Put{Object: object("a"), Now: u.now})
			return err
		},
		"Update": func() error {
			_, err := s.Update(ctx, u.owner, b, buckets.Update{Name: "a", ContentType: &text, Now: u.now})
			return err
		},
		"Delete": func() error {
			_, err := s.Delete(ctx, u.owner, b, buckets.Delete{Name: "a", Now: u.now})
			return err
		},
		"DeleteAll": func() error {
			done, err := s.DeleteAll(ctx, u.owner, b, buckets.Deletions{All: []buckets.Deletion{{Name: "a"}}, Now: u.now})
			if err == nil {
				err = done[0].Err
			}
			return err
		},
		"CreateUpload": func() error {
			return up.CreateUpload(ctx, u.owner, b, buckets.Upload{ID: buckets.NewUploadID(u.now), Name: "a", Created: u.now})
		},
		"PutPart": func() error {
			return up.PutPart(ctx, buckets.UploadKey{Owner: u.owner, Bucket: b, Name: "up", ID: id}, part(1, 10, u.now))
		},
		"Complete": func() error {
			_, err := up.Complete(ctx, buckets.UploadKey{Owner: u.owner, Bucket: b, Name: "up", ID: id}, buckets.Completion{Object: buckets.ObjectID(buckets.NewUUID()), Now: u.now})
			return err
		},
		"SetQuota": func() error { return u.h.Counters.SetQuota(ctx, u.owner, b, buckets.Quota{Objects: 1}) },
	}
}

func putsAgainstDelete(t *testing.T, u *user) {
	const puts = 50
	for range 5 {
		objects := make([]buckets.Object, puts)
		for i := range objects {
			objects[i] = object("o" + string(rune('a'+i)))
		}
		errs := testdb.Concurrently(puts+1, func(i int) error {
			if i == puts {
				return u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.now)
			}
			_, err := u.tryPut(objects[i], buckets.Condition{})
			return err
		})
		var live []buckets.ObjectID
		for i, err := range errs[:puts] {
			if err == nil {
				live = append(live, objects[i].ID)
			} else {
				wantError(t, "a Put that lost", err, buckets.ErrNoBucket)
			}
		}
		_, err := u.h.Store.Bucket(t.Context(), u.owner, "bucket")
		if deleted := errs[puts] == nil; deleted {
			wantError(t, "Bucket", err, buckets.ErrNoBucket)
			equal(t, "objects of a deleted bucket", live, nil)
		} else {
			must(t, "Bucket", err)
			wantError(t, "DeleteBucket", errs[puts], buckets.ErrBucketNotEmpty)
		}
		u.wantBodies(live, nil)
		u.wantUsage(int64(len(live)), 10*int64(len(live)))
		u = u.other()
	}
}

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}
