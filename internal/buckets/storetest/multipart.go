package storetest

import (
	"fmt"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/optional"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func uploadChecks() []check {
	return []check{
		{"Values", uploadValues},
		{"Parts", uploadParts},
		{"ReplacedPart", replacedPart},
		{"UnlistedParts", unlistedParts},
		{"Refused", refusedComplete},
		{"Segments", uploadSegments},
		{"Overwrite", completeOverwrites},
		{"Repeated", repeatedComplete},
		{"CompleteRace", completeRace},
		{"PartsAgainstComplete", partsAgainstComplete},
		{"Abort", abortUpload},
		{"NoUpload", noUpload},
		{"List", listUploads},
	}
}

func uploadValues(t *testing.T, u *user) {
	o := full("a")
	up := buckets.Upload{
		ID: buckets.NewUploadID(u.now), Name: "a", Created: u.now, Creator: o.Creator, ContentType: o.ContentType, Headers: o.Headers, Roles: o.Roles, Properties: o.Properties,
	}
	up.Checksum = buckets.Checksum{Algorithm: "SHA256", Composite: true}
	must(t, "CreateUpload", u.h.Uploads.CreateUpload(t.Context(), u.owner, u.ref(), up))
	got, err := u.h.Uploads.Upload(t.Context(), u.key("a", up.ID))
	must(t, "Upload", err)
	equal(t, "upload", decoded(t, got.Extra), decoded(t, up.Extra))
	got.Extra = up.Extra
	equal(t, "upload", got, up)
	p := part(1, 10, u.now)
	ofPart := checksum.Sum(checksum.SHA256, []byte("the part"))
	p.Checksum = buckets.Checksum{Algorithm: "SHA256", Value: ofPart.String()}
	ref := u.putPart("a", up.ID, p)
	u.tick()
	sum := up.Checksum
	sum.Value, _ = checksum.Composite(checksum.SHA256, []checksum.Part{{Checksum: ofPart, Size: 10}})
	w, err := u.h.Uploads.Complete(t.Context(), u.key("a", up.ID), buckets.Completion{
		Object: o.ID, Parts: []buckets.PartRef{ref}, Now: u.now, Expected: buckets.Expected{Size: optional.Some[int64](10), Checksums: []buckets.Checksum{sum}},
	})
	must(t, "Complete", err)
	o.Body = buckets.Body{ID: o.ID, Length: 10}
	o.Created, o.Modified, o.Checksum, o.Upload, o.Parts, o.ETag = u.now, u.now, sum, up.ID, 1, w.Object.ETag
	wantObject(t, "written", w.Object, o)
	wantObject(t, "read", u.get("a"), o)
}

func uploadParts(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	parts := map[int]buckets.Part{}
	for _, n := range []int{3, buckets.MaxParts, 1, 2} {
		p := part(n, int64(n), u.tick())
		p.Checksum = buckets.Checksum{Algorithm: "CRC32C", Value: fmt.Sprint(n)}
		u.putPart("a", id, p)
		parts[n] = p
	}
	want := func(after, limit int, more bool, numbers ...int) {
		t.Helper()
		page, gotMore, err := u.h.Uploads.Parts(t.Context(), u.key("a", id), after, limit)
		must(t, "Parts", err)
		var all []buckets.Part
		for _, n := range numbers {
			all = append(all, parts[n])
		}
		equal(t, "parts", page, all)
		equal(t, "more", gotMore, more)
	}
	want(0, 10, false, 1, 2, 3, buckets.MaxParts)
	want(0, 4, false, 1, 2, 3, buckets.MaxParts)
	want(0, 2, true, 1, 2)
	want(2, 1, true, 3)
	want(3, 1, false, buckets.MaxParts)
	want(buckets.MaxParts, 1, false)
	u.wantUsage(0, buckets.MaxParts+6)
}

func replacedPart(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	first, second, third := part(1, 10, u.now), part(1, 7, u.now), part(1, 20, u.now)
	stale := u.putPart("a", id, first)
	u.putPart("a", id, second)
	ref := u.putPart("a", id, third)
	u.wantBodies([]buckets.ObjectID{third.ID}, []buckets.ObjectID{first.ID, second.ID})
	u.wantUsage(0, 20)
	_, err := u.tryComplete("a", id, []buckets.PartRef{stale}, buckets.Condition{})
	wantError(t, "with the tag of a part that was replaced", err, buckets.ErrPart)
	u.complete("a", id, ref)
	u.wantBodies([]buckets.ObjectID{third.ID}, []buckets.ObjectID{first.ID, second.ID})
	u.wantUsage(1, 20)
}

func unlistedParts(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	var refs []buckets.PartRef
	var used, unused []buckets.ObjectID
	for n := 1; n <= 5; n++ {
		p := part(n, int64(n), u.now)
		ref := u.putPart("a", id, p)
		if n%2 == 0 {
			refs, used = append(refs, ref), append(used, p.ID)
		} else {
			unused = append(unused, p.ID)
		}
	}
	u.wantUsage(0, 15)
	o := u.complete("a", id, refs...)
	equal(t, "length and parts", []int64{o.Length, int64(o.Parts)}, []int64{6, 2})
	u.wantBodies(used, unused)
	u.wantUsage(1, 6)
	u.delete("a")
	u.wantUsage(0, 0)
}

func refusedComplete(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	one := u.putPart("a", id, part(1, 10, u.now))
	two := u.putPart("a", id, part(2, 10, u.now))
	before := u.everything()
	for name, c := range map[string]struct {
		parts []buckets.PartRef
		min   int64
		want  error
	}{
		"none":           {nil, 0, buckets.ErrNoParts},
		"order":          {[]buckets.PartRef{two, one}, 0, buckets.ErrPartOrder},
		"twice":          {[]buckets.PartRef{one, one}, 0, buckets.ErrPartOrder},
		"not uploaded":   {[]buckets.PartRef{one, {Number: 3, ETag: one.ETag}}, 0, buckets.ErrPart},
		"another tag":    {[]buckets.PartRef{{Number: 1, ETag: two.ETag}}, 0, buckets.ErrPart},
		"too small":      {[]buckets.PartRef{one, two}, 11, buckets.ErrPartTooSmall},
		"another number": {[]buckets.PartRef{{Number: 0, ETag: one.ETag}}, 0, buckets.ErrPart},
	} {
		_, err := u.h.Uploads.Complete(t.Context(), u.key("a", id), buckets.Completion{Object: stored(1).ID, Parts: c.parts, MinPart: c.min, Now: u.now})
		wantError(t, name, err, c.want)
		equal(t, "after "+name, u.everything(), before)
	}
	_, err := u.h.Uploads.Complete(t.Context(), u.key("a", id), buckets.Completion{
		Object: stored(1).ID, Parts: []buckets.PartRef{one}, Now: u.now, Expected: buckets.Expected{Size: optional.Some[int64](11)},
	})
	wantError(t, "another size", err, buckets.ErrObjectSize)
	equal(t, "after another size", u.everything(), before)
	u.complete("a", id, one, two)
}

func uploadSegments(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	small := buckets.Part{Number: 4, Body: inline("abc"), Created: u.now}
	parts := []buckets.Part{part(1, 10, u.now), part(2, 20, u.now), part(3, 0, u.now), small}
	parts[0].Frames, parts[2].Frames = optional.Some(buckets.Frames{ID: 1<<64 - 1, CRC64NVME: 1 << 63}), optional.Some(buckets.Frames{})
	parts[1].Checksum = buckets.Checksum{Algorithm: "CRC32", Value: "AAAAAA=="}
	replaced := part(2, 20, u.now)
	replaced.Frames = optional.Some(buckets.Frames{ID: 7, CRC64NVME: 7})
	u.putPart("a", id, replaced)
	var refs []buckets.PartRef
	for _, p := range parts {
		refs = append(refs, u.putPart("a", id, p))
	}
	u.complete("a", id, refs...)
	starts := []int64{0, 10, 30, 30}
	for from, first := range map[int64]int{0: 0, 9: 0, 10: 1, 29: 1, 30: 3, 32: 3, 33: 4} {
		for _, limit := range []int{1, 2, 10} {
			got, err := u.h.Store.Segments(t.Context(), u.owner, id, from, limit)
			must(t, "Segments", err)
			var want []buckets.Segment
			for i := first; i < len(parts) && len(want) < limit; i++ {
				want = append(want, buckets.Segment{Body: parts[i].Body, Number: i + 1, Start: starts[i], Checksum: parts[i].Checksum})
			}
			equal(t, fmt.Sprintf("segments from %d", from), got, want)
		}
	}
	bodies, err := u.h.Collector.UploadBodies(t.Context(), u.owner, id, 1, 2)
	must(t, "UploadBodies", err)
	equal(t, "bodies", []buckets.ObjectID{bodies[0].ID, bodies[1].ID}, []buckets.ObjectID{parts[1].ID, parts[2].ID})
	equal(t, "checksums", []buckets.Checksum{bodies[0].Checksum, bodies[1].Checksum}, []buckets.Checksum{parts[1].Checksum, {}})
}

func completeOverwrites(t *testing.T, u *user) {
	old := u.put("a")
	id := u.createUpload("a", u.now)
	p := part(1, 4, u.now)
	ref := u.putPart("a", id, p)
	equal(t, "the object of an incomplete upload", u.get("a").ID, old.ID)
	u.wantUsage(1, 14)
	w, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
	must(t, "Complete", err)
	equal(t, "replaced", w.Replaced, true)
	u.wantUsage(1, 4)
	u.wantBodies([]buckets.ObjectID{p.ID}, ids(old))
	u.put("a")
	u.wantUsage(1, 10)
}

func repeatedComplete(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	ref := u.putPart("a", id, part(1, 10, u.now))
	o := u.complete("a", id, ref)
	u.tick()
	before := u.everything()
	w, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{NoneMatch: anyTag})
	must(t, "Complete again", err)
	wantObject(t, "the object", w.Object, o)
	equal(t, "replaced", w.Replaced, false)
	equal(t, "afterwards", u.everything(), before)
	_, err = u.tryComplete("b", id, []buckets.PartRef{ref}, buckets.Condition{})
	wantError(t, "by another name", err, buckets.ErrNoUpload)
	u.put("a")
	_, err = u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
	wantError(t, "after an overwrite", err, buckets.ErrNoUpload)
}

func completeRace(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	p := part(1, 10, u.now)
	ref := u.putPart("a", id, p)
	got := make([]buckets.ObjectID, parallel)
	errs := testdb.Concurrently(parallel, func(i int) error {
		w, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
		got[i] = w.Object.ID
		return err
	})
	equal(t, "answers", suite.Winners(t, errs, is(nil)), parallel)
	for _, o := range got {
		equal(t, "the object", o, u.get("a").ID)
	}
	u.wantBodies([]buckets.ObjectID{p.ID}, nil)
	u.wantUsage(1, 10)
}

func partsAgainstComplete(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	first := part(1, 10, u.now)
	ref := u.putPart("a", id, first)
	parts := make([]buckets.Part, parallel)
	for i := range parts {
		parts[i] = part(2+i%3, 10, u.now)
	}
	errs := testdb.Concurrently(parallel+1, func(i int) error {
		if i == parallel {
			_, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
			return err
		}
		return u.h.Uploads.PutPart(t.Context(), u.key("a", id), parts[i])
	})
	must(t, "Complete", errs[parallel])
	var garbage []buckets.ObjectID
	for i, err := range errs[:parallel] {
		if err == nil {
			garbage = append(garbage, parts[i].ID)
		} else {
			wantError(t, "PutPart", err, buckets.ErrNoUpload)
		}
	}
	u.wantBodies([]buckets.ObjectID{first.ID}, garbage)
	u.wantUsage(1, 10)
}

func abortUpload(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	ref := u.putPart("a", id, part(1, 10, u.now))
	u.wantUsage(0, 10)
	must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key("a", id), u.tick()))
	u.wantUsage(0, 0)
	wantError(t, "again", u.h.Uploads.Abort(t.Context(), u.key("a", id), u.now), buckets.ErrNoUpload)
	_, err := u.tryComplete("a", id, []buckets.PartRef{ref}, buckets.Condition{})
	wantError(t, "Complete", err, buckets.ErrNoUpload)
	wantError(t, "PutPart", u.h.Uploads.PutPart(t.Context(), u.key("a", id), part(2, 1, u.now)), buckets.ErrNoUpload)
	u.wantNone("a")
	equal(t, "the part's body is known until it is collected", len(u.references()), 1)
}

func noUpload(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	ref := u.putPart("a", id, part(1, 10, u.now))
	other := u.createBucket("other")
	for _, c := range []struct {
		bucket buckets.BucketRef
		name   string
		id     buckets.UploadID
	}{{u.ref(), "b", id}, {other.BucketRef, "a", id}, {u.ref(), "a", buckets.NewUploadID(u.now)}} {
		_, err := u.h.Uploads.Upload(t.Context(), buckets.UploadKey{Owner: u.owner, Bucket: buckets.BucketRef{ID: c.bucket.ID}, Name: c.name, ID: c.id})
		wantError(t, "Upload", err, buckets.ErrNoUpload)
		_, _, err = u.h.Uploads.Parts(t.Context(), buckets.UploadKey{Owner: u.owner, Bucket: buckets.BucketRef{ID: c.bucket.ID}, Name: c.name, ID: c.id}, 0, 1)
		wantError(t, "Parts", err, buckets.ErrNoUpload)
		wantError(t, "PutPart", u.h.Uploads.PutPart(t.Context(), buckets.UploadKey{Owner: u.owner, Bucket: c.bucket, Name: c.name, ID: c.id}, part(1, 1, u.now)), buckets.ErrNoUpload)
		_, err = u.h.Uploads.Complete(t.Context(), buckets.UploadKey{Owner: u.owner, Bucket: c.bucket, Name: c.name, ID: c.id}, buckets.Completion{Object: stored(1).ID, Parts: []buckets.PartRef{ref}, Now: u.now})
		wantError(t, "Complete", err, buckets.ErrNoUpload)
		wantError(t, "Abort", u.h.Uploads.Abort(t.Context(), buckets.UploadKey{Owner: u.owner, Bucket: buckets.BucketRef{ID: c.bucket.ID}, Name: c.name, ID: c.id}, u.now), buckets.ErrNoUpload)
	}
	u.complete("a", id, ref)
}

func listUploads(t *testing.T, u *user) {
	all := map[buckets.UploadID]string{}
	for i, name := range []string{"b", "a/2", "a/1", "b", "a0", "b", "é%"} {
		id := u.createUpload(name, u.now+buckets.Moment(i)*second)
		all[id] = name + fmt.Sprint(i)
	}
	list := func(q buckets.UploadQuery) (names []string) {
		for {
			p, err := u.h.Uploads.ListUploads(t.Context(), u.owner, u.bucket.ID, q)
			must(t, "ListUploads", err)
			if n := len(p.Uploads) + len(p.Groups); n > q.Limit || p.More && n != q.Limit {
				t.Fatalf("a page of %d entries, more is %v, the limit is %d", n, p.More, q.Limit)
			}
			for _, up := range p.Uploads {
				names = append(names, all[up.ID])
			}
			names = append(names, p.Groups...)
			if !p.More {
				return sorted(names)
			}
			q.After, q.AfterID = p.After, p.AfterID
		}
	}
	for limit := 1; limit < 9; limit++ {
		equal(t, "all", list(buckets.UploadQuery{Limit: limit}), []string{"a/12", "a/21", "a04", "b0", "b3", "b5", "é%6"})
		equal(t, "groups", list(buckets.UploadQuery{Delimiter: "/", Limit: limit}), []string{"a/", "a04", "b0", "b3", "b5", "é%6"})
		equal(t, "prefix", list(buckets.UploadQuery{Prefix: "a", Delimiter: "/", Limit: limit}), []string{"a/", "a04"})
		equal(t, "prefix of a group", list(buckets.UploadQuery{Prefix: "a/", Delimiter: "/", Limit: limit}), []string{"a/12", "a/21"})
		equal(t, "after a name", list(buckets.UploadQuery{After: "b", Limit: limit}), []string{"é%6"})
		equal(t, "after a group", list(buckets.UploadQuery{After: "a/", Delimiter: "/", Limit: limit}), []string{"a04", "b0", "b3", "b5", "é%6"})
		equal(t, "pattern", list(buckets.UploadQuery{Prefix: "_", Limit: limit}), nil)
	}
}
