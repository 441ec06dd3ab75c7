package storetest

import (
	"errors"
	"testing"

	"holdfast/internal/buckets"
)

func referenceChecks() []check {
	return []check{
		{"All", allReferences},
		{"SetSharks", setSharks},
		{"OfGarbage", referencesOfGarbage},
		{"Stopped", referencesStopped},
	}
}

func (u *user) reference(name string) (found buckets.Reference) {
	u.t.Helper()
	n := 0
	for _, r := range u.references() {
		if r.Name == name && !r.Garbage {
			found = r
			n++
		}
	}
	equal(u.t, "references of "+name, n, 1)
	return found
}

func allReferences(t *testing.T, u *user) {
	live, old := u.put("live"), u.put("old")
	u.delete("old")
	u.putObject(buckets.Object{Name: "inline", Body: inline("abc")})
	id := u.createUpload("up", u.now)
	p := part(7, 10, u.now)
	u.putPart("up", id, p)
	bucket := u.bucket.ID
	equal(t, "references", u.references(), map[buckets.ObjectID]buckets.Reference{
		live.ID: {Owner: u.owner, Bucket: bucket, Name: "live", Body: live.Body},
		old.ID:  {Owner: u.owner, Bucket: bucket, Name: "old", Garbage: true, Body: old.Body},
		p.ID:    {Owner: u.owner, Bucket: bucket, Name: "up", Upload: id, Number: 7, Body: p.Body},
	})
	u.complete("up", id, buckets.PartRef{Number: 7, ETag: hexTag(p)})
	equal(t, "of a complete upload", u.references()[p.ID], buckets.Reference{Owner: u.owner, Bucket: bucket, Name: "up", Upload: id, Number: 7, Body: p.Body})
}

func referencesOfGarbage(t *testing.T, u *user) {
	for _, name := range []string{"aborted", "deleted", "live"} {
		id := u.createUpload(name, u.now)
		p := part(1, 10, u.now)
		ref := u.putPart(name, id, p)
		want := buckets.Reference{Owner: u.owner, Bucket: u.bucket.ID, Name: name, Upload: id, Number: 1, Body: p.Body}
		equal(t, "incomplete", u.references()[p.ID], want)
		switch name {
		case "aborted":
			must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key(name, id), u.now))
		case "deleted":
			u.complete(name, id, ref)
			u.delete(name)
		case "live":
			u.complete(name, id, ref)
		}
		want.Garbage = name != "live"
		equal(t, name, u.references()[p.ID], want)
	}
}

func setSharks(t *testing.T, u *user) {
	live, old := u.putObject(full("live")), u.put("old")
	u.delete("old")
	id := u.createUpload("up", u.now)
	p := part(1, 10, u.now)
	u.putPart("up", id, p)
	moved := []string{"north:3.stor"}
	for _, body := range []buckets.ObjectID{live.ID, old.ID, p.ID} {
		r := u.references()[body]
		stale := r
		stale.Sharks = []string{"east:1.stor"}
		set := func(r buckets.Reference) bool {
			ok, err := u.h.References.SetSharks(t.Context(), r, moved)
			must(t, "SetSharks", err)
			return ok
		}
		equal(t, "with other nodes", set(stale), false)
		another := r
		another.ID = stored(1).ID
		equal(t, "of another body", set(another), false)
		equal(t, "set", set(r), true)
		equal(t, "set again", set(r), false)
		equal(t, "nodes", u.references()[body].Sharks, moved)
	}
	live.Sharks = moved
	wantObject(t, "the object", u.get("live"), live)

	r := u.references()[live.ID]
	u.putObject(full("live"))
	ok, err := u.h.References.SetSharks(t.Context(), r, []string{"a:b"})
	must(t, "SetSharks", err)
	equal(t, "of an object that was overwritten", ok, false)
	equal(t, "nodes of the garbage", u.references()[live.ID].Sharks, moved)
}

func referencesStopped(t *testing.T, u *user) {
	u.put("a")
	u.put("b")
	stop := errors.New("stop")
	n := 0
	err := u.h.References.References(t.Context(), func(buckets.Reference) error { n++; return stop })
	wantError(t, "References", err, stop)
	equal(t, "calls", n, 1)
}
