package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

type fixture struct {
	*user
	upload buckets.UploadID
	parts  []buckets.PartRef
	claim  string
	taken  []buckets.Garbage
	gone   buckets.DeletedBucket
	empty  buckets.Bucket
	body   buckets.Reference
}

func newFixture(u *user) *fixture {
	u = u.other()
	f := &fixture{user: u}
	// Remove garbage from earlier fixtures.
	for {
		claim, all := u.claim(1000)
		if u.remove(claim, all); len(all) == 0 {
			break
		}
	}
	o := u.putObject(full("a"))
	f.body = buckets.Reference{Owner: u.owner, Bucket: u.bucket.ID, Name: "a", Body: o.Body}
	u.putObject(buckets.Object{Name: "b", Body: inline("abc")})
	f.empty = u.createBucket("empty")
	f.upload = u.createUpload("a", u.now)
	f.parts = []buckets.PartRef{u.putPart("a", f.upload, part(1, 10, u.now)), u.putPart("a", f.upload, part(2, 20, u.now))}
	u.put("garbage")
	u.delete("garbage")
	f.claim, f.taken = u.claim(1)
	f.gone.Bucket, f.gone.Deleted = u.createBucket("gone"), u.now
	u.deleteBucket(f.gone.BucketRef)
	must(u.t, "CreateKey", u.h.Accounts.CreateKey(u.t.Context(), buckets.Key{ID: "K" + string(u.owner), Account: u.owner, Secret: []byte("s")}))
	return f
}

func (f *fixture) writes() map[string]func() error {
	ctx := f.t.Context()
	calls := f.writesTo(f.ref(), f.upload)
	calls["DeleteBucket"] = func() error { return f.h.Store.DeleteBucket(ctx, f.owner, f.empty.BucketRef, f.now) }
	calls["CreateBucket"] = f.accountCalls(f.upload)["CreateBucket"]
	calls["PutPart"] = func() error {
		return f.h.Uploads.PutPart(ctx, f.key("a", f.upload), part(1, 5, f.now))
	}
	calls["Complete"] = func() error {
		_, err := f.tryComplete("a", f.upload, f.parts[1:], buckets.Condition{})
		return err
	}
	calls["Abort"] = func() error { return f.h.Uploads.Abort(ctx, f.key("a", f.upload), f.now) }
	calls["AbortOld"] = func() error { _, err := f.h.Uploads.AbortOld(ctx, f.now+1, f.now, 100); return err }
	calls["Claim"] = func() error {
		_, err := f.h.Collector.Claim(ctx, buckets.Claim{ID: buckets.NewUUID(), Before: f.now, Now: f.now, Expires: f.now + hour, Limit: 9})
		return err
	}
	calls["Remove"] = func() error { _, err := f.h.Collector.Remove(ctx, f.claim, f.taken); return err }
	calls["Unclaim"] = func() error { return f.h.Collector.Unclaim(ctx, f.claim) }
	calls["RemoveBucket"] = func() error { _, err := f.h.Collector.RemoveBucket(ctx, f.gone, f.now, 9); return err }
	calls["SetSharks"] = func() error {
		set, err := f.h.References.SetSharks(ctx, f.body, []string{"a:b"})
		if err == nil && !set {
			f.t.Errorf("SetSharks found no body")
		}
		return err
	}
	calls["SetFrames"] = func() error {
		set, err := f.h.References.SetFrames(ctx, f.body, buckets.Frames{ID: 1, CRC64NVME: 2})
		if err == nil && !set {
			f.t.Errorf("SetFrames found no body")
		}
		return err
	}
	calls["CreateKey"] = func() error {
		return f.h.Accounts.CreateKey(ctx, buckets.Key{ID: "N" + string(f.owner), Account: f.owner, Secret: []byte("s")})
	}
	calls["RevokeKey"] = func() error { return f.h.Accounts.RevokeKey(ctx, "K"+string(f.owner), f.now) }
	return calls
}

func faultChecks() []check {
	var all []check
	for _, name := range []string{
		"SetBucket", "DeleteBucket", "Put", "Update", "Delete", "DeleteAll", "CreateUpload", "PutPart", "Complete", "SetQuota", "CreateBucket", "Abort", "AbortOld",
		"Claim", "Remove", "Unclaim", "RemoveBucket", "SetSharks", "SetFrames", "CreateKey", "RevokeKey",
	} {
		all = append(all, check{name, func(t *testing.T, u *user) { failingWrite(t, u, name) }})
	}
	return all
}

func failingWrite(t *testing.T, u *user, name string) {
	if u.h.Faulty == nil {
		t.Skip("the backend has no Faulty in its Harness")
	}
	trip := &suite.Trip{}
	u.h = u.h.Faulty(t, trip.Fault)
	trip.FailEach(t, name, func() (operation func() error, check func(what string)) {
		f := newFixture(u)
		before := f.everything()
		call := f.writes()[name]
		return call, func(what string) {
			equal(t, "what is stored after "+what, f.everything(), before)
			must(t, name+" after "+what, call())
			f.everything()
		}
	})
}
