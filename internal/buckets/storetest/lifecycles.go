package storetest

import (
	"fmt"
	"slices"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

func lifecycleChecks() []check {
	return []check{
		{"Due", dueLifecycles},
		{"Run", lifecycleRun},
		{"Expire", expire},
		{"ExpireChanged", expireChanged},
		{"ExpireMany", expireMany},
		{"ExpireRace", expireRace},
		{"Clock", databaseClock},
	}
}

func daily(changed buckets.Moment) buckets.Lifecycle {
	return buckets.Lifecycle{Changed: changed, Rules: []buckets.LifecycleRule{
		{ID: "a", Filter: &buckets.LifecycleFilter{Tags: []buckets.Tag{{Key: "k", Value: "ü\"<"}}}, Expiration: &buckets.Expiration{Days: 3}},
	}}
}

func (u *user) setLifecycle(b buckets.BucketRef, l buckets.Lifecycle) {
	u.t.Helper()
	if len(l.Rules) > 0 {
		l.Bucket = b.Name
	}
	must(u.t, "SetBucket", u.h.Store.SetBucket(u.t.Context(), u.owner, b, buckets.SettingsChange{Lifecycle: &l}))
}

func (u *user) due(now buckets.Moment, limit int) (names []string) {
	u.t.Helper()
	for after := (buckets.BucketKey{}); ; {
		page, err := u.h.Lifecycles.DueLifecycles(u.t.Context(), after, now, limit)
		must(u.t, "DueLifecycles", err)
		if len(page) == 0 {
			slices.Sort(names)
			return names
		}
		for _, b := range page {
			if b.Owner != u.owner || len(b.Settings.Lifecycle.Rules) == 0 {
				u.t.Fatalf("%+v", b)
			}
			names, after = append(names, b.Name), b.Key()
		}
	}
}

func (u *user) setRun(b buckets.BucketRef, run buckets.LifecycleRun) {
	u.t.Helper()
	must(u.t, "SetLifecycleRun", u.h.Lifecycles.SetLifecycleRun(u.t.Context(), buckets.BucketKey{Owner: u.owner, Bucket: b.ID}, run))
}

func dueLifecycles(t *testing.T, u *user) {
	all := []buckets.BucketRef{u.ref()}
	for _, name := range []string{"b-1", "b-2", "b-3"} {
		all = append(all, u.createBucket(name).BucketRef)
	}
	equal(t, "without rules", u.due(u.now, 9), nil)
	for _, b := range all {
		u.setLifecycle(b, daily(u.now))
	}
	b, err := u.h.Store.Bucket(t.Context(), u.owner, "b-1")
	must(t, "Bucket", err)
	b.Settings.Lifecycle.Bucket = ""
	equal(t, "the rules", b.Settings.Lifecycle, daily(u.now))
	for _, limit := range []int{1, 3, 9} {
		equal(t, "before the first run", u.due(u.now, limit), []string{"b-1", "b-2", "b-3", "bucket"})
	}
	for i, b := range all {
		u.setRun(b, buckets.LifecycleRun{Rules: u.now, Due: u.now + hour*buckets.Moment(i)})
	}
	equal(t, "now", u.due(u.now, 9), []string{"bucket"})
	equal(t, "in an hour", u.due(u.now+hour, 1), []string{"b-1", "bucket"})
	u.setLifecycle(all[3], daily(u.tick()))
	equal(t, "after a change", u.due(u.now, 9), []string{"b-3", "bucket"})
	must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, all[1], publicRead))
	u.setLifecycle(all[0], buckets.Lifecycle{})
	equal(t, "without rules", u.due(u.now, 9), []string{"b-3"})
	u.deleteBucket(all[3])
	for b := (buckets.DeletedBucket{Bucket: buckets.Bucket{BucketRef: all[3], Owner: u.owner}}); ; {
		done, err := u.h.Collector.RemoveBucket(t.Context(), b, u.now, 9)
		must(t, "RemoveBucket", err)
		if done {
			break
		}
	}
	run, err := u.h.Lifecycles.LifecycleRun(t.Context(), buckets.BucketKey{Owner: u.owner, Bucket: all[3].ID})
	must(t, "LifecycleRun", err)
	equal(t, "the run of a bucket that is removed", run, buckets.LifecycleRun{})
	equal(t, "removed", u.due(u.now, 9), nil)
}

func lifecycleRun(t *testing.T, u *user) {
	key := u.bucket.Key()
	read := func() buckets.LifecycleRun {
		run, err := u.h.Lifecycles.LifecycleRun(t.Context(), key)
		must(t, "LifecycleRun", err)
		return run
	}
	equal(t, "before the first", read(), buckets.LifecycleRun{})
	last := buckets.LifecycleResult{Began: u.now, Ended: u.now + 1, Read: 9, Deleted: buckets.Usage{Objects: 2, Bytes: 3}}
	run := buckets.LifecycleRun{
		Rules: u.now, Due: u.now + hour, LifecycleResult: buckets.LifecycleResult{Began: u.now + hour}, Previous: &last,
		LifecyclePosition: buckets.LifecyclePosition{Phase: buckets.LifecycleUploads, Prefix: 2, After: "ü\"<\x01", AfterID: buckets.NewUploadID(u.now)}, Error: "it failed",
	}
	run.Add("rule ü", buckets.Counts{Usage: buckets.Usage{Objects: 1, Bytes: 10}})
	run.Add("rule ü", buckets.Counts{Uploads: 1})
	u.setRun(u.ref(), run)
	equal(t, "stored", read(), run)
	u.setRun(u.ref(), buckets.LifecycleRun{Due: 1})
	equal(t, "replaced", read(), buckets.LifecycleRun{Due: 1})
	for _, err := range []error{
		u.h.Lifecycles.SetLifecycleRun(t.Context(), buckets.BucketKey{Bucket: key.Bucket}, run),
		func() error { _, err := u.h.Lifecycles.LifecycleRun(t.Context(), buckets.BucketKey{}); return err }(),
		func() error {
			_, err := u.h.Lifecycles.Expire(t.Context(), "", u.ref(), buckets.Expired{})
			return err
		}(),
	} {
		wantError(t, "without an account", err, buckets.ErrNoAccountID)
	}
}

func (u *user) page() (all []*buckets.Object) {
	for _, e := range u.list(buckets.Query{Limit: buckets.MaxPage}).Entries {
		all = append(all, e.Object)
	}
	return all
}

func (u *user) expire(all ...*buckets.Object) []bool {
	u.t.Helper()
	deleted, err := u.h.Lifecycles.Expire(u.t.Context(), u.owner, u.ref(), buckets.Expired{Objects: all, Now: u.now})
	must(u.t, "Expire", err)
	return deleted
}

func expire(t *testing.T, u *user) {
	equal(t, "nothing", len(u.expire()), 0)
	u.put("a")
	tagged := object("b")
	tagged.Tags = map[string]string{"k": "ü\"<", "l": ""}
	u.putObject(tagged)
	in := object("c")
	in.Body = inline("abc")
	u.putObject(in)
	id := u.createUpload("d", u.now)
	p := u.putPart("d", id, part(1, 10, u.now))
	u.complete("d", id, p)
	u.put("kept")
	u.tick()
	all := u.page()
	equal(t, "deleted", u.expire(all[:4]...), []bool{true, true, true, true})
	equal(t, "names", u.listed(buckets.Query{Limit: 9}), []string{"kept"})
	u.wantUsage(1, 10)
	u.wantAudit()
	equal(t, "again", u.expire(all[:4]...), []bool{false, false, false, false})
	u.wantAudit()
	var names []string
	_, garbage := u.claim(9)
	for _, g := range garbage {
		if len(g.Sharks) == 0 && g.Upload == "" {
			continue // a backend need not record inline bodies, because there is nothing to remove
		}
		names = append(names, fmt.Sprintf("%s %v %d %v", g.Name, g.Deleted == u.now, len(g.Sharks), g.Upload == id))
	}
	slices.Sort(names)
	equal(t, "garbage", names, []string{"a true 2 false", "b true 2 false", "d true 0 true"})
	ref := u.ref()
	ref.ID = buckets.BucketID(buckets.NewUUID())
	_, err := u.h.Lifecycles.Expire(t.Context(), u.owner, ref, buckets.Expired{Objects: u.page(), Now: u.now})
	wantError(t, "in another incarnation", err, buckets.ErrNoBucket)
	equal(t, "names", u.listed(buckets.Query{Limit: 9}), []string{"kept"})
}

func expireChanged(t *testing.T, u *user) {
	names := []string{"body", "deleted", "other", "same", "tags", "tags removed", "touched"}
	for _, name := range names {
		o := object(name)
		if name == "tags removed" {
			o.Tags = map[string]string{"k": "v"}
		}
		u.putObject(o)
	}
	all := u.page()
	u.put("body") // with an equal time
	u.delete("deleted")
	update := func(w buckets.Update) {
		w.Now = u.now
		_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), w)
		must(t, "Update", err)
	}
	update(buckets.Update{Name: "tags", Tags: &map[string]string{"k": "v"}})
	update(buckets.Update{Name: "tags removed", Tags: new(map[string]string)})
	u.tick()
	update(buckets.Update{Name: "touched", Touch: true})
	kind := "text/html"
	update(buckets.Update{Name: "same", ContentType: &kind})
	equal(t, "deleted", u.expire(all...), []bool{false, false, true, true, false, false, false})
	equal(t, "names", u.listed(buckets.Query{Limit: 9}), []string{"body", "tags", "tags removed", "touched"})
	u.wantAudit()
}

func expireMany(t *testing.T, u *user) {
	const n = 150
	for i := range n {
		o := object(fmt.Sprintf("%03d", i))
		o.Body = inline("x")
		u.putObject(o)
	}
	deleted := u.expire(u.page()...)
	if len(deleted) != n || slices.Contains(deleted, false) {
		t.Errorf("%v", deleted)
	}
	u.wantUsage(0, 0)
	u.wantAudit()
}

func expireRace(t *testing.T, u *user) {
	for i := range 20 {
		u.put(fmt.Sprintf("%02d", i))
	}
	all := u.page()
	var got [8][]bool
	for _, err := range testdb.Concurrently(len(got), func(i int) (err error) {
		got[i], err = u.h.Lifecycles.Expire(t.Context(), u.owner, u.ref(), buckets.Expired{Objects: all, Now: u.now})
		return err
	}) {
		must(t, "Expire", err)
	}
	for i := range all {
		n := 0
		for _, deleted := range got {
			if deleted[i] {
				n++
			}
		}
		equal(t, "deletions of "+all[i].Name, n, 1)
	}
	u.wantUsage(0, 0)
	u.wantAudit()
}

func databaseClock(t *testing.T, u *user) {
	first, err := u.h.Lifecycles.Clock(t.Context())
	must(t, "Clock", err)
	second, err := u.h.Lifecycles.Clock(t.Context())
	must(t, "Clock", err)
	if first < start || second < first {
		t.Errorf("%d, then %d", first, second)
	}
}
