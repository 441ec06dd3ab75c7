package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

func versionChecks() []check {
	return []check{
		{"History", history}, {"Suspended", suspended}, {"Settings", versioningSettings}, {"Placement", versionPlacement},
		{"QuotaOfVersions", quotaOfVersions}, {"WritesDuringChange", writesDuringChange}, {"Race", versionRace}, {"ExpireVersions", expireVersions}, {"RandomVersions", randomVersions}, {"ImportVersions", importVersions},
	}
}

func (u *user) setVersioning(v buckets.Versioning) {
	u.t.Helper()
	must(u.t, "SetVersioning", u.h.Versions.SetVersioning(u.t.Context(), u.owner, u.ref(), v))
}

func (u *user) version(name string, id buckets.VersionID) (buckets.Version, error) {
	return u.h.Versions.Version(u.t.Context(), u.owner, u.bucket.ID, name, id)
}

func (u *user) tryDeleteVersion(name string, id buckets.VersionID) (buckets.Deleted, error) {
	return u.h.Store.Delete(u.t.Context(), u.owner, u.ref(), buckets.Delete{Name: name, Version: id, Now: u.now})
}

func (u *user) deleteVersion(name string, id buckets.VersionID) buckets.Deleted {
	u.t.Helper()
	d, err := u.tryDeleteVersion(name, id)
	must(u.t, "Delete", err)
	return d
}

func (u *user) versions(q buckets.VersionQuery) buckets.VersionPage {
	u.t.Helper()
	p, err := u.h.Versions.ListVersions(u.t.Context(), u.owner, u.bucket.ID, q)
	must(u.t, "ListVersions", err)
	return p
}

func history(t *testing.T, u *user) {
	first := u.putObject(full("a"))
	equal(t, "version without versions", first.VersionID(), buckets.NullVersion)
	u.setVersioning(buckets.VersioningEnabled)
	u.tick()
	w, err := u.tryPut(object("a"), buckets.Condition{})
	must(t, "Put", err)
	second := w.Object
	equal(t, "replaced", w.Replaced, true)
	equal(t, "version of the write", w.Version, second.Version)
	if _, err := buckets.ParseVersionID(string(second.Version)); err != nil || second.Version == "" {
		t.Errorf("version %q: %v", second.Version, err)
	}
	u.tick()
	marker := u.deleteVersion("a", "")
	equal(t, "marker", marker.Marker, true)
	u.wantNone("a")
	current, err := u.version("a", "")
	must(t, "Version", err)
	equal(t, "the marker is current", current.Marker && current.Current && current.VersionID() == marker.Version, true)
	equal(t, "names", len(u.list(buckets.Query{Limit: 9}).Entries), 0)
	u.wantUsage(3, 10+first.Length)
	wantError(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.now), buckets.ErrBucketNotEmpty)

	old, err := u.version("a", buckets.NullVersion)
	must(t, "Version", err)
	wantObject(t, "null version", old.Object, first)
	equal(t, "superseded", old.Superseded, start+second.Created-first.Created)
	equal(t, "current", old.Current, false)

	tagged := map[string]string{"k": "v"}
	u.tick()
	_, err = u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Version: second.Version, Tags: &tagged, Now: u.now})
	must(t, "Update", err)
	second.Tags = tagged
	_, err = u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Version: marker.Version, Tags: &tagged, Now: u.now})
	wantError(t, "Update of a marker", err, buckets.ErrMarker)

	// Unknown versions change nothing.
	_, err = u.version("a", buckets.NewVersionID(u.now, "", first.ID))
	wantError(t, "Version", err, buckets.ErrNoVersion)
	_, err = u.version("b", "")
	wantError(t, "Version", err, buckets.ErrNoObject)
	_, err = u.tryDeleteVersion("a", buckets.NewVersionID(u.now, "", first.ID))
	wantError(t, "Delete", err, buckets.ErrNoVersion)

	_, err = u.h.Store.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: "a", Version: marker.Version, Noncurrent: true, Now: u.now})
	wantError(t, "Delete of a noncurrent version", err, buckets.ErrPrecondition)
	page := u.versions(buckets.VersionQuery{Noncurrent: true, Limit: 9})
	equal(t, "without current objects", len(page.Versions), 3)
	done := u.deleteVersion("a", marker.Version)
	equal(t, "the marker is gone", done.Marker && done.Version == marker.Version, true)
	wantObject(t, "the second version", u.get("a"), second)
	_, err = u.h.Store.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: "a", Version: second.Version, Noncurrent: true, Now: u.now})
	wantError(t, "Delete of a noncurrent version", err, buckets.ErrPrecondition)
	page = u.versions(buckets.VersionQuery{Noncurrent: true, Limit: 9})
	equal(t, "without current objects", len(page.Versions), 1)
	done = u.deleteVersion("a", second.Version)
	equal(t, "deleted object", done.Object.ID, second.ID)
	wantObject(t, "the first version", u.get("a"), first)
	u.wantBodies(ids(first), ids(second))
	u.deleteVersion("a", buckets.NullVersion)
	u.wantNone("a")
	u.wantUsage(0, 0)
	_, err = u.version("a", "")
	wantError(t, "Version", err, buckets.ErrNoObject)

	again := u.deleteVersion("never", "")
	equal(t, "a marker without an object", again.Marker, true)
	equal(t, "marker of never", len(u.versions(buckets.VersionQuery{Limit: 9}).Versions), 1)
	u.deleteVersion("never", again.Version)
	must(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.now))
}

func suspended(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	kept := u.put("a")
	u.setVersioning(buckets.VersioningSuspended)
	u.tick()
	w, err := u.tryPut(object("a"), buckets.Condition{})
	must(t, "Put", err)
	equal(t, "version", w.Version, buckets.NullVersion)
	u.tick()
	last := u.put("a")
	u.wantBodies(ids(kept, last), ids(w.Object))
	u.wantUsage(2, 20)
	u.tick()
	marker := u.deleteVersion("a", "")
	equal(t, "version of the marker", marker.Version, buckets.NullVersion)
	u.wantBodies(ids(kept), ids(w.Object, last))
	u.wantUsage(2, 10)
	u.tick()
	final := u.put("a")
	u.wantUsage(2, 20)
	p := u.versions(buckets.VersionQuery{Limit: 9})
	equal(t, "versions", len(p.Versions), 2)
	equal(t, "newest first", p.Versions[0].ID, final.ID)
	equal(t, "newest is current", p.Versions[0].Current && !p.Versions[1].Current, true)
	equal(t, "kept", p.Versions[1].VersionID(), kept.Version)
}

func versioningSettings(t *testing.T, u *user) {
	read := func() buckets.Versioning {
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		page, _, err := u.h.Store.Buckets(t.Context(), u.owner, buckets.BucketQuery{Limit: 9})
		must(t, "Buckets", err)
		equal(t, "versioning in the list", page[0].Versioning, b.Versioning)
		found, _, err := u.h.Store.Find(t.Context(), u.owner, u.bucket.Name, "none")
		wantError(t, "Find", err, buckets.ErrNoObject)
		equal(t, "versioning with an object", found.Versioning, b.Versioning)
		return b.Versioning
	}
	equal(t, "at first", read(), buckets.VersioningOff)
	for _, v := range []buckets.Versioning{buckets.VersioningSuspended, buckets.VersioningEnabled, buckets.VersioningSuspended} {
		u.setVersioning(v)
		equal(t, "versioning", read(), v)
	}
	wantError(t, "off", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningOff), buckets.ErrVersioning)
	wantError(t, "unknown", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), 3), buckets.ErrVersioning)
	wantError(t, "no bucket", u.h.Versions.SetVersioning(t.Context(), u.owner, newRef("none"), buckets.VersioningEnabled), buckets.ErrNoBucket)
	wantError(t, "no account", u.h.Versions.SetVersioning(t.Context(), "", u.ref(), buckets.VersioningEnabled), buckets.ErrNoAccountID)
	_, err := u.h.Versions.Version(t.Context(), "", u.bucket.ID, "a", "")
	wantError(t, "no account", err, buckets.ErrNoAccountID)
	_, err = u.h.Versions.ListVersions(t.Context(), "", u.bucket.ID, buckets.VersionQuery{Limit: 1})
	wantError(t, "no account", err, buckets.ErrNoAccountID)
}

func versionPlacement(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	old := u.put("a")
	u.tick()
	u.put("a")
	r := u.references()[old.ID]
	set, err := u.h.References.SetSharks(t.Context(), r, []string{"north:3.stor"})
	must(t, "SetSharks", err)
	equal(t, "set", set, true)
	f := buckets.Frames{ID: 1 << 63, CRC64NVME: 2}
	set, err = u.h.References.SetFrames(t.Context(), u.references()[old.ID], f)
	must(t, "SetFrames", err)
	equal(t, "frames set", set, true)
	v, err := u.version("a", old.Version)
	must(t, "Version", err)
	equal(t, "nodes", v.Sharks, []string{"north:3.stor"})
	equal(t, "frames", v.Frames.Value, f)
	must(t, "SetNode", u.h.Nodes.SetNode(t.Context(), buckets.Node{ID: "north:3.stor", URL: "file:///n", State: buckets.NodeRemoving, Added: u.now}))
	wantError(t, "CheckUnused", u.h.Nodes.CheckUnused(t.Context(), "north:3.stor"), buckets.ErrNodeInUse)
	u.deleteVersion("a", old.Version)
	set, err = u.h.References.SetSharks(t.Context(), r, []string{"east:1.stor"})
	must(t, "SetSharks", err)
	equal(t, "set after the deletion", set, false)
}

func quotaOfVersions(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	u.setQuota(u.ref(), buckets.Quota{Objects: 2})
	a := u.put("a")
	u.put("a")
	_, err := u.tryPut(object("a"), buckets.Condition{})
	wantQuota(t, "Put", err, false)
	_, err = u.tryDelete("a", buckets.Condition{})
	wantQuota(t, "Delete", err, false)
	u.wantUsage(2, 20)
	u.deleteVersion("a", a.Version)
	_, err = u.tryDelete("a", buckets.Condition{})
	must(t, "Delete", err)
	u.wantUsage(2, 10)
}

func writesDuringChange(t *testing.T, u *user) {
	u.put("a")
	written := make([]buckets.Object, parallel)
	after := make([]bool, parallel)
	done := make(chan struct{})
	testdb.Concurrently(parallel, func(i int) error {
		if i == parallel/2 {
			defer close(done)
			return u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningEnabled)
		}
		select {
		case <-done:
			after[i] = true
		default:
		}
		w, err := u.tryPut(object("a"), buckets.Condition{})
		written[i] = w.Object
		must(t, "Put", err)
		return err
	})
	for i := range written {
		if !after[i] || written[i].ID == "" {
			continue
		}
		if _, err := u.version("a", written[i].VersionID()); err != nil {
			t.Errorf("a version that was written after the change: %v", err)
		}
	}
	u.wantAudit()
}

func versionRace(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	objects := make([]buckets.Object, parallel)
	for i := range objects {
		objects[i] = object([]string{"a", "b"}[i%2])
	}
	testdb.Concurrently(parallel, func(i int) error {
		w, err := u.tryPut(objects[i], buckets.Condition{})
		must(t, "Put", err)
		objects[i].Version = w.Object.Version
		switch i % 4 {
		case 0:
			_, err = u.tryDeleteVersion(objects[i].Name, w.Object.Version)
			must(t, "Delete", err)
		case 1:
			_, err = u.tryDelete(objects[i].Name, buckets.Condition{})
			must(t, "Delete", err)
		}
		return err
	})
	var live, garbage []buckets.ObjectID
	for i := range objects {
		if i%4 == 0 {
			garbage = append(garbage, objects[i].ID)
		} else {
			live = append(live, objects[i].ID)
		}
	}
	u.wantBodies(live, garbage)
	u.wantUsage(int64(parallel), int64(10*(parallel-parallel/4)))
	p := u.versions(buckets.VersionQuery{Limit: buckets.MaxPage})
	equal(t, "versions", len(p.Versions), parallel)
	seen := map[string]bool{}
	for i := range p.Versions {
		v := &p.Versions[i]
		equal(t, "current version of "+v.Name, v.Current, !seen[v.Name])
		seen[v.Name] = true
	}
}

func expireVersions(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	a, b, c := u.put("a"), u.put("b"), u.put("c")
	u.tick()
	u.put("b")
	u.setQuota(u.ref(), buckets.Quota{Objects: 5})
	gone := object("gone")
	deleted, err := u.h.Lifecycles.Expire(t.Context(), u.owner, u.ref(), buckets.Expired{Objects: []*buckets.Object{&a, &b, &c, &gone}, Now: u.now})
	must(t, "Expire", err)
	equal(t, "deleted", deleted, []bool{true, false, false, false})
	current, err := u.version("a", "")
	must(t, "Version", err)
	equal(t, "a delete marker", current.Marker, true)
	wantObject(t, "c", u.get("c"), c)
	u.wantUsage(5, 40)
	old, err := u.version("a", a.Version)
	must(t, "Version", err)
	equal(t, "the expired version", old.ID, a.ID)
}

func importVersions(t *testing.T, u *user) {
	u.setVersioning(buckets.VersioningEnabled)
	past := u.now - 365*24*hour
	put := func(at buckets.Moment) buckets.Object {
		o := full("a")
		o.Body, o.Imported, o.ImportedTags = stored(10), at, buckets.TagsSum(o.Tags)
		w, err := u.tryPut(o, buckets.Condition{})
		must(t, "Put", err)
		u.tick()
		return w.Object
	}
	mark := func(at buckets.Moment) buckets.Deleted {
		d, err := u.h.Store.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: "a", Now: u.now, Imported: at})
		must(t, "Delete", err)
		u.tick()
		return d
	}
	mark(past)
	first := put(past + hour)
	second := put(past + 2*hour)
	marker := mark(past + 3*hour)
	var times [][]buckets.Moment
	all := u.versions(buckets.VersionQuery{Limit: 9}).Versions
	for i := range all {
		times = append(times, []buckets.Moment{all[i].Modified, all[i].Imported, all[i].Superseded})
	}
	equal(t, "times", times, [][]buckets.Moment{
		{past + 3*hour, past + 3*hour, 0}, {past + 2*hour, past + 2*hour, past + 3*hour}, {past + hour, past + hour, past + 2*hour}, {past, past, past + hour},
	})
	equal(t, "versions", []buckets.VersionID{all[0].VersionID(), all[1].VersionID(), all[2].VersionID()}, []buckets.VersionID{marker.Version, second.Version, first.Version})
	equal(t, "sum of tags", all[1].ImportedTags, buckets.TagsSum(full("a").Tags))
	tags := map[string]string{"k": "v"}
	_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Version: first.Version, Tags: &tags, Imported: true, Now: u.now})
	must(t, "Update", err)
	v, err := u.version("a", first.Version)
	must(t, "Version", err)
	equal(t, "imported tags", []any{v.Tags, v.ImportedTags, v.Modified}, []any{tags, buckets.TagsSum(tags), past + hour})
	u.put("a")
	v, err = u.version("a", marker.Version)
	must(t, "Version", err)
	equal(t, "a marker that a client has superseded", v.Superseded, u.now)
}
