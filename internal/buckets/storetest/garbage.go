package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

func garbageChecks() []check {
	return []check{
		{"ClaimAndRemove", claimAndRemove},
		{"imported garbage", importedGarbage},
		{"ClaimExpires", claimExpires},
		{"Objects", claimObjects},
		{"Unclaim", unclaim},
		{"Waiting", waitingGarbage},
		{"ClaimRace", claimRace},
		{"Hold", holdGarbage},
		{"Uploads", garbageOfUploads},
		{"OldUploads", abortOldUploads},
		{"DeletedBucket", collectDeletedBucket},
	}
}

func (u *user) claim(limit int) (id string, all []buckets.Garbage) {
	u.t.Helper()
	id = buckets.NewUUID()
	all, err := u.h.Collector.Claim(u.t.Context(), buckets.Claim{ID: id, Before: u.now, Now: u.now, Expires: u.now + hour, Limit: limit})
	must(u.t, "Claim", err)
	return id, all
}

func (u *user) claimed(claim string) []buckets.Garbage {
	u.t.Helper()
	all, err := u.h.Collector.Claimed(u.t.Context(), claim, u.now, false)
	must(u.t, "Claimed", err)
	return all
}

func (u *user) remove(claim string, g []buckets.Garbage) int {
	u.t.Helper()
	n, err := u.h.Collector.Remove(u.t.Context(), claim, g)
	must(u.t, "Remove", err)
	return n
}

func (u *user) wantBacklog(rows, bytes int64, oldest buckets.Moment) {
	u.t.Helper()
	r, b, o, err := u.h.Collector.Backlog(u.t.Context())
	must(u.t, "Backlog", err)
	equal(u.t, "backlog", []int64{r, b, int64(o)}, []int64{rows, bytes, int64(oldest)})
}

func claimAndRemove(t *testing.T, u *user) {
	u.wantBacklog(0, 0, 0)
	var want []buckets.Garbage
	for _, name := range []string{"c", "a", "b"} {
		o := u.put(name)
		u.tick()
		u.delete(name)
		want = append(want, buckets.Garbage{Owner: u.owner, Bucket: u.bucket.ID, Name: name, ID: o.ID, Length: 10, Sharks: o.Sharks, Deleted: u.now})
	}
	u.wantBacklog(3, 30, want[0].Deleted)
	early, err := u.h.Collector.Claim(t.Context(), buckets.Claim{ID: buckets.NewUUID(), Before: want[0].Deleted - 1, Now: u.now, Expires: u.now + hour, Limit: 9})
	must(t, "Claim", err)
	equal(t, "deleted before the first", early, nil)

	first, two := u.claim(2)
	equal(t, "the first two", two, want[:2])
	second, one := u.claim(9)
	equal(t, "the third", one, want[2:])
	_, none := u.claim(9)
	equal(t, "nothing is left", none, nil)
	equal(t, "claimed", u.claimed(first), two)
	equal(t, "claimed by no one", u.claimed(buckets.NewUUID()), nil)
	equal(t, "removed by another claim", u.remove(second, two), 0)
	equal(t, "removed", u.remove(first, two[:1]), 1)
	equal(t, "claimed after the first is removed", u.claimed(first), two[1:])
	equal(t, "removed again", u.remove(first, two), 1)
	equal(t, "removed a third time", u.remove(first, two), 0)
	equal(t, "removed nothing", u.remove(first, nil), 0)
	u.wantBacklog(1, 10, want[2].Deleted)
	equal(t, "removed", u.remove(second, one), 1)
	u.wantBacklog(0, 0, 0)
	u.wantBodies(nil, nil)
}

func importedGarbage(t *testing.T, u *user) {
	o := object("a")
	o.Imported = u.now - 365*24*hour
	u.putObject(o)
	u.tick()
	o.Body = stored(20)
	u.putObject(o)
	u.wantBacklog(1, 10, u.now)
}

func claimObjects(t *testing.T, u *user) {
	first := u.putObject(full("a"))
	u.tick()
	second := full("a")
	second.Creator, second.Body = buckets.AccountID(buckets.NewUUID()), stored(5)
	second = u.putObject(second)
	u.tick()
	u.delete("a")
	u.tick()
	id := buckets.NewUUID()
	claimed, err := u.h.Collector.Claim(t.Context(), buckets.Claim{ID: id, Before: u.now, Now: u.now, Expires: u.now + hour, Limit: 9, Objects: true})
	must(t, "Claim", err)
	read, err := u.h.Collector.Claimed(t.Context(), id, u.now, true)
	must(t, "Claimed", err)
	for what, all := range map[string][]buckets.Garbage{"claimed": claimed, "read": read} {
		if len(all) != 2 || all[0].Object == nil || all[1].Object == nil {
			t.Fatalf("%s: %+v", what, all)
		}
		for i, want := range []buckets.Object{first, second} {
			want.Frames, want.CRC32C = all[i].Object.Frames, all[i].Object.CRC32C // the body was not read
			wantObject(t, what, *all[i].Object, want)
		}
	}
	for _, g := range u.claimed(id) {
		equal(t, "an object that was not asked for", g.Object, nil)
	}
}

func claimExpires(t *testing.T, u *user) {
	u.put("a")
	u.delete("a")
	first, all := u.claim(9)
	u.now += hour - 1
	_, none := u.claim(9)
	equal(t, "before it expires", none, nil)
	equal(t, "claimed before it expires", u.claimed(first), all)
	u.now++
	equal(t, "claimed when it has expired", u.claimed(first), nil)
	second, again := u.claim(9)
	equal(t, "when it expires", again, all)
	equal(t, "removed by the first", u.remove(first, all), 0)
	equal(t, "removed by the second", u.remove(second, all), 1)
}

func unclaim(t *testing.T, u *user) {
	for _, name := range []string{"a", "b", "c"} {
		u.put(name)
		u.tick()
		u.delete(name)
	}
	first, two := u.claim(2)
	other, one := u.claim(9)
	equal(t, "removed before the release", u.remove(first, two[:1]), 1)
	for range 2 {
		must(t, "Unclaim", u.h.Collector.Unclaim(t.Context(), first))
	}
	equal(t, "removed after the release", u.remove(first, two), 0)
	equal(t, "claimed after the release", u.claimed(first), nil)
	second, again := u.claim(9)
	equal(t, "claimed by the next", again, two[1:])
	equal(t, "removed by the next", u.remove(second, again), 1)
	equal(t, "removed by the other claim", u.remove(other, one), 1)
	must(t, "Unclaim of an unknown claim", u.h.Collector.Unclaim(t.Context(), buckets.NewUUID()))
}

func waitingGarbage(t *testing.T, u *user) {
	want := func(what string, before buckets.Moment, want buckets.Waiting) {
		t.Helper()
		got, err := u.h.Collector.Waiting(t.Context(), before, u.now)
		must(t, "Waiting", err)
		equal(t, what, got, want)
	}
	want("nothing", u.now, buckets.Waiting{})
	var deleted []buckets.Moment
	for _, name := range []string{"a", "b", "c"} {
		u.put(name)
		u.delete(name)
		deleted = append(deleted, u.now)
		u.tick()
	}
	want("all are due", u.now, buckets.Waiting{Rows: 3})
	want("two are young", deleted[0], buckets.Waiting{Rows: 3, Young: 2, Next: deleted[1]})
	claim, _ := u.claim(2)
	until := u.now + hour
	want("two are claimed", u.now, buckets.Waiting{Rows: 3, Claimed: 2, Until: until})
	want("one is claimed and two are young", deleted[0], buckets.Waiting{Rows: 3, Young: 2, Next: deleted[1], Claimed: 1, Until: until})
	u.now = until
	want("the claim has expired", u.now, buckets.Waiting{Rows: 3})
	equal(t, "due", buckets.Waiting{Rows: 3, Young: 1, Claimed: 1}.Due(), 1)
	must(t, "Unclaim", u.h.Collector.Unclaim(t.Context(), claim))
}

func holdGarbage(t *testing.T, u *user) {
	c := u.h.Collector
	held := func(want buckets.Moment) {
		t.Helper()
		until, err := c.Held(t.Context(), u.now)
		must(t, "Held", err)
		equal(t, "held until", until, want)
	}
	u.put("a")
	u.put("b")
	u.delete("a")
	before, claimed := u.claim(9)
	u.delete("b")
	held(0)
	must(t, "Hold", c.Hold(t.Context(), "one", u.now, u.now+second))
	must(t, "Hold", c.Hold(t.Context(), "two", u.now, u.now+hour))
	held(u.now + hour)
	_, none := u.claim(9)
	equal(t, "during two holds", none, nil)
	equal(t, "removed what was claimed before", u.remove(before, claimed), 1)
	must(t, "Release", c.Release(t.Context(), "two"))
	held(u.now + second)
	_, none = u.claim(9)
	equal(t, "during a hold", none, nil)
	must(t, "Hold again", c.Hold(t.Context(), "one", u.now, u.now+hour))
	u.now += hour - 1
	_, none = u.claim(9)
	equal(t, "before it expires", none, nil)
	u.now++
	held(0)
	_, garbage := u.claim(9)
	equal(t, "when it expires", len(garbage), 1)
	must(t, "Release", c.Release(t.Context(), "one"))
	must(t, "Release again", c.Release(t.Context(), "one"))
}

func claimRace(t *testing.T, u *user) {
	for range parallel {
		u.put("a")
	}
	u.delete("a")
	got := make([][]buckets.Garbage, 20)
	testdb.Concurrently(len(got), func(i int) error {
		claim := buckets.NewUUID()
		var err error
		got[i], err = u.h.Collector.Claim(t.Context(), buckets.Claim{ID: claim, Before: u.now, Now: u.now, Expires: u.now + hour, Limit: 7})
		wantError(t, "Claim", err, nil)
		n, err := u.h.Collector.Remove(t.Context(), claim, got[i])
		wantError(t, "Remove", err, nil)
		equal(t, "removed", n, len(got[i]))
		return err
	})
	seen := map[buckets.ObjectID]bool{}
	for _, batch := range got {
		for _, g := range batch {
			if seen[g.ID] {
				t.Errorf("%s was claimed twice", g.ID)
			}
			seen[g.ID] = true
		}
	}
	claim, rest := u.claim(parallel)
	equal(t, "garbage", len(seen)+len(rest), parallel)
	u.remove(claim, rest)
	u.wantBodies(nil, nil)
}

func garbageOfUploads(t *testing.T, u *user) {
	for _, name := range []string{"aborted", "deleted"} {
		id := u.createUpload(name, u.now)
		one, two := part(1, 10, u.now), part(2, 20, u.now)
		refs := []buckets.PartRef{u.putPart(name, id, one), u.putPart(name, id, two)}
		u.tick()
		if name == "aborted" {
			must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key(name, id), u.now))
		} else {
			u.complete(name, id, refs...)
			u.delete(name)
		}
		u.wantUsage(0, 0)
		u.wantBacklog(1, 30, u.now)
		claim, all := u.claim(9)
		equal(t, "garbage of "+name, len(all), 1)
		g := all[0]
		equal(t, "garbage of "+name, g, buckets.Garbage{Owner: u.owner, Bucket: u.bucket.ID, Name: name, ID: g.ID, Length: 30, Upload: id, Deleted: u.now})
		bodies, err := u.h.Collector.UploadBodies(t.Context(), u.owner, id, 0, 9)
		must(t, "UploadBodies", err)
		equal(t, "bodies", []buckets.ObjectID{bodies[0].ID, bodies[1].ID}, []buckets.ObjectID{one.ID, two.ID})
		equal(t, "removed by another", u.remove(buckets.NewUUID(), all), 0)
		equal(t, "bodies", len(u.references()), 2)
		equal(t, "removed", u.remove(claim, all), 1)
		u.wantBodies(nil, nil)
		u.wantUsage(0, 0)
	}
}

func abortOldUploads(t *testing.T, u *user) {
	other := u.other()
	first := u.createUpload("a", u.now)
	u.putPart("a", first, part(1, 10, u.now))
	second := other.createUpload("a", u.now+1)
	third := u.createUpload("a", u.now+2)
	abort := func(before buckets.Moment, limit, want int) {
		t.Helper()
		n, err := u.h.Uploads.AbortOld(t.Context(), before, u.now, limit)
		must(t, "AbortOld", err)
		equal(t, "aborted", n, want)
	}
	exists := func(u *user, id buckets.UploadID, want error) {
		t.Helper()
		_, err := u.h.Uploads.Upload(t.Context(), u.key("a", id))
		wantError(t, "Upload", err, want)
	}
	abort(u.now, 9, 0)
	abort(u.now+2, 1, 1)
	exists(u, first, buckets.ErrNoUpload)
	exists(other, second, nil)
	u.wantUsage(0, 0)
	abort(u.now+2, 9, 1)
	exists(other, second, buckets.ErrNoUpload)
	exists(u, third, nil)
	abort(u.now+2, 9, 0)
	u.wantBacklog(2, 10, u.now)
}

func collectDeletedBucket(t *testing.T, u *user) {
	must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), publicRead))
	for _, name := range []string{"a", "b", "c"} {
		u.putPart(name, u.createUpload(name, u.now), part(1, 10, u.now))
	}
	deleted := buckets.DeletedBucket{Bucket: u.bucket, Deleted: u.tick()}
	u.deleteBucket(u.ref())
	equal(t, "usage until the uploads are aborted", u.usage(), buckets.AccountUsage{Total: buckets.Usage{Bytes: 30}})
	u.wantAudit()
	list := func(before buckets.Moment) []buckets.DeletedBucket {
		all, err := u.h.Collector.DeletedBuckets(t.Context(), before, 9)
		must(t, "DeletedBuckets", err)
		return all
	}
	step := func(limit int) bool {
		done, err := u.h.Collector.RemoveBucket(t.Context(), deleted, u.now, limit)
		must(t, "RemoveBucket", err)
		return done
	}
	equal(t, "too early", list(u.now-1), nil)
	equal(t, "deleted", list(u.now), []buckets.DeletedBucket{deleted})
	equal(t, "done with two uploads", step(2), false)
	u.wantAudit()
	equal(t, "with garbage", list(u.now), nil)
	equal(t, "done with the third", step(2), false)
	claim, all := u.claim(9)
	equal(t, "garbage", u.remove(claim, all), 3)
	equal(t, "without garbage", list(u.now), []buckets.DeletedBucket{deleted})
	equal(t, "done", step(2), true)
	equal(t, "done again", step(2), true)
	equal(t, "afterwards", list(u.now), nil)
	u.wantBodies(nil, nil)
	equal(t, "usage", u.usage(), buckets.AccountUsage{})
	u.wantAudit()
}
