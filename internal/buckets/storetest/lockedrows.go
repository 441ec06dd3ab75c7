package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

var attacks = map[string]func(*attack){
	"CreateBucket": func(a *attack) {
		_, _ = a.h.Store.CreateBucket(a.t.Context(), a.owner, buckets.BucketRef{Name: a.bucket.Name, ID: newRef("").ID}, a.now)
	},
	"SetBucket": func(a *attack) {
		public := true
		_ = a.h.Store.SetBucket(a.t.Context(), a.owner, a.ref(), buckets.SettingsChange{PublicRead: &public})
	},
	"FreeName": func(a *attack) {
		_, _ = a.h.Store.FreeName(a.t.Context(), a.bucket.Name)
	},
	"ForgetNames": func(a *attack) {
		_, err := a.h.Store.ForgetNames(a.t.Context(), a.now+year, 1000)
		must(a.t, "ForgetNames", err)
	},
	"DeleteBucket": func(a *attack) {
		wantError(a.t, "DeleteBucket", a.h.Store.DeleteBucket(a.t.Context(), a.owner, a.ref(), a.now), buckets.ErrBucketNotEmpty)
	},
	"Put": func(a *attack) {
		a.each(func(v buckets.Version) { _, _ = a.tryPut(object(v.Name), buckets.Condition{}) })
		o := object("imported")
		o.Imported = 1
		a.putObject(o)
	},
	"Update": func(a *attack) {
		kind := "text/html"
		a.each(func(v buckets.Version) {
			update := func(c buckets.Update) {
				c.Name, c.Version, c.Now = v.Name, v.VersionID(), a.now
				_, err := a.h.Store.Update(a.t.Context(), a.owner, a.ref(), c)
				wantLocked(a.t, "Update", err, v.Lock)
			}
			update(buckets.Update{ContentType: &kind})
			update(buckets.Update{Headers: map[string]string{}})
			update(buckets.Update{Touch: true})
			if v.Lock.Hold == "" {
				update(buckets.Update{Lock: &buckets.LockChange{Retention: &buckets.Retention{}}})
				update(buckets.Update{Lock: &buckets.LockChange{Retention: &buckets.Retention{Mode: v.Lock.Mode, Until: v.Lock.Until - 1}, Bypass: v.Lock.Mode == buckets.Compliance}})
			}
		})
	},
	"Delete": func(a *attack) {
		a.each(func(v buckets.Version) {
			for _, d := range []buckets.Delete{
				{}, {Noncurrent: true}, {Unchanged: &v.Object}, {Condition: buckets.Condition{Match: anyTag}}, {Bypass: v.Lock.Mode != buckets.Governance},
			} {
				d.Name, d.Version, d.Now = v.Name, v.VersionID(), a.now
				if _, err := a.h.Store.Delete(a.t.Context(), a.owner, a.ref(), d); err == nil {
					a.t.Errorf("the locked version of %s is deleted", v.Name)
				}
				d.Version, d.Noncurrent = "", false
				_, _ = a.h.Store.Delete(a.t.Context(), a.owner, a.ref(), d)
			}
		})
	},
	"DeleteAll": func(a *attack) {
		var all []buckets.Deletion
		a.each(func(v buckets.Version) {
			all = append(all, buckets.Deletion{Name: v.Name}, buckets.Deletion{Name: v.Name, Version: v.VersionID(), Bypass: v.Lock.Mode != buckets.Governance})
		})
		_, err := a.h.Store.DeleteAll(a.t.Context(), a.owner, a.ref(), buckets.Deletions{All: all, Now: a.now})
		must(a.t, "DeleteAll", err)
	},
	"SetVersioning": func(a *attack) {
		for _, v := range []buckets.Versioning{buckets.VersioningSuspended, buckets.VersioningOff, buckets.VersioningEnabled} {
			_ = a.h.Versions.SetVersioning(a.t.Context(), a.owner, a.ref(), v)
			a.each(func(v buckets.Version) { _, _ = a.tryPut(object(v.Name), buckets.Condition{}) })
			a.each(func(v buckets.Version) { _, _ = a.tryDelete(v.Name, buckets.Condition{}) })
		}
	},
	"SetBucketLock": func(a *attack) {
		for _, l := range []buckets.BucketLock{{}, {Enabled: true}, {Enabled: true, Mode: buckets.Governance, Days: 1}} {
			_ = a.h.Versions.SetBucketLock(a.t.Context(), a.owner, a.ref(), l)
		}
		a.each(func(v buckets.Version) { _, _ = a.tryPut(object(v.Name), buckets.Condition{}) })
	},
	"CreateUpload": func(a *attack) { a.each(func(v buckets.Version) { a.createUpload(v.Name, a.now) }) },
	"PutPart": func(a *attack) {
		a.each(func(v buckets.Version) {
			_ = a.h.Uploads.PutPart(a.t.Context(), a.key(v.Name, a.upload), part(1, 3, a.now))
		})
	},
	"Complete": func(a *attack) {
		a.each(func(v buckets.Version) {
			id := a.createUpload(v.Name, a.now)
			a.complete(v.Name, id, a.putPart(v.Name, id, part(1, 3, a.now)))
			_, _ = a.tryComplete(v.Name, a.upload, nil, buckets.Condition{})
		})
	},
	"Abort": func(a *attack) {
		a.each(func(v buckets.Version) { _ = a.h.Uploads.Abort(a.t.Context(), a.key(v.Name, a.upload), a.now) })
	},
	"AbortOld": func(a *attack) {
		_, err := a.h.Uploads.AbortOld(a.t.Context(), a.now+year, a.now, 1000)
		must(a.t, "AbortOld", err)
	},
	"MarkRestored": func(a *attack) { must(a.t, "MarkRestored", a.h.Uploads.MarkRestored(a.t.Context())) },
	"Claim":        (*attack).collect, "Unclaim": (*attack).collect, "Remove": (*attack).collect, "Hold": (*attack).collect, "Release": (*attack).collect,
	"RemoveBucket": func(a *attack) {
		_, _ = a.h.Collector.RemoveBucket(a.t.Context(), buckets.DeletedBucket{Bucket: a.bucket, Deleted: a.now}, a.now, 1000)
	},
	"SetSharks": func(a *attack) { // a drain moves bodies but does not change versions
		for _, r := range a.references() {
			was := r.Sharks
			set, err := a.h.References.SetSharks(a.t.Context(), r, []string{"north:3.stor"})
			must(a.t, "SetSharks", err)
			if r.Sharks = []string{"north:3.stor"}; set {
				_, err = a.h.References.SetSharks(a.t.Context(), r, was)
				must(a.t, "SetSharks", err)
			}
		}
	},
	"SetFrames": func(a *attack) {
		for _, r := range a.references() {
			_, _ = a.h.References.SetFrames(a.t.Context(), r, buckets.Frames{ID: 1, CRC64NVME: 2})
		}
		for i := range a.locked { // frames describe the stored body
			v, err := a.version(a.locked[i].Name, a.locked[i].VersionID())
			must(a.t, "Version", err)
			a.locked[i].Frames = v.Frames
		}
	},
	"SetQuota": func(a *attack) {
		a.setQuota(a.ref(), buckets.Quota{Objects: 1, Bytes: 1})
		a.each(func(v buckets.Version) { _, _ = a.tryPut(object(v.Name), buckets.Condition{}) })
		a.setQuota(a.ref(), buckets.Quota{})
	},
	"Audit": func(a *attack) {
		_, err := a.h.Counters.Audit(a.t.Context(), a.owner, true)
		must(a.t, "Audit", err)
	},
	"CreateAccount": func(a *attack) {
		_ = a.h.Accounts.CreateAccount(a.t.Context(), buckets.Account{ID: a.owner, Name: "again", Created: a.now})
	},
	"DeleteAccount": func(a *attack) {
		wantError(a.t, "DeleteAccount", a.h.Accounts.DeleteAccount(a.t.Context(), a.owner), buckets.ErrAccountHasBucket)
	},
	"CreateKey": func(a *attack) {
		_ = a.h.Accounts.CreateKey(a.t.Context(), buckets.Key{ID: "LOCKED", Account: a.owner, Secret: []byte("s"), Created: a.now})
	},
	"ChangeKey": func(a *attack) {
		_ = a.h.Accounts.ChangeKey(a.t.Context(), "LOCKED", buckets.KeyTerms{}, buckets.KeyTerms{Name: "x"})
	},
	"RevokeKey": func(a *attack) { _ = a.h.Accounts.RevokeKey(a.t.Context(), "LOCKED", a.now) },
	"SetNode": func(a *attack) {
		must(a.t, "SetNode", a.h.Nodes.SetNode(a.t.Context(), buckets.Node{ID: "east:1.stor", URL: "file:///n", State: buckets.NodeRemoved, Added: a.now}))
	},
	"ChangeNode": func(a *attack) {
		_, _ = a.h.Nodes.ChangeNode(a.t.Context(), "east:1.stor", []buckets.NodeState{buckets.NodeRemoved}, buckets.NodeRemoving)
		wantError(a.t, "CheckUnused", a.h.Nodes.CheckUnused(a.t.Context(), "east:1.stor"), buckets.ErrNodeInUse)
		must(a.t, "SetNode", a.h.Nodes.SetNode(a.t.Context(), buckets.Node{ID: "east:1.stor", URL: "file:///n", State: buckets.NodeActive, Added: a.now}))
	},
	"Lease":    func(a *attack) { a.lease("h", time.Second) },
	"EndLease": func(a *attack) { a.endLease("h") },
	"Mark": func(a *attack) {
		var all []buckets.Damage
		a.each(func(v buckets.Version) { all = append(all, a.damaged(a.copyOf("east:1.stor", v.Object))...) })
		must(a.t, "Mark", a.h.Damages.Mark(a.t.Context(), all))
	},
	"NoteAttempt": func(a *attack) {
		a.each(func(v buckets.Version) {
			for _, d := range a.damaged(a.copyOf("east:1.stor", v.Object)) {
				_ = a.h.Damages.NoteAttempt(a.t.Context(), d)
			}
		})
	},
	"Unmark": func(a *attack) {
		a.each(func(v buckets.Version) {
			_ = a.h.Damages.Unmark(a.t.Context(), a.damaged(a.copyOf("east:1.stor", v.Object)))
		})
	},
	"SetScrub": func(a *attack) {
		must(a.t, "SetScrub", a.h.Scrubs.SetScrub(a.t.Context(), buckets.Scrub{Node: "east:1.stor", Began: a.now}))
	},
	"DropEvents": func(a *attack) {
		_, err := a.h.Events.DropEvents(a.t.Context(), "", a.now+year, 1000)
		must(a.t, "DropEvents", err)
	},
	"DropDeadEvents": func(a *attack) {
		_, err := a.h.Events.DropDeadEvents(a.t.Context(), a.now+year)
		must(a.t, "DropDeadEvents", err)
	},
	"SetLifecycleRun": func(a *attack) { a.setRun(a.ref(), buckets.LifecycleRun{Due: 1}) },
	"Expire": func(a *attack) {
		_, err := a.h.Lifecycles.Expire(a.t.Context(), a.owner, a.ref(), buckets.Expired{Objects: a.page(), Now: a.now})
		must(a.t, "Expire", err)
	},
}

var readers = []string{
	"Bucket", "Buckets", "FindBuckets", "BucketsWithCORS", "NameHolder", "NameClaim", "NameClaims", "HiddenBuckets", "Find", "Get", "Segments", "List", "Ping", "Version", "ListVersions", "Upload", "Parts", "ListUploads",
	"Claimed", "Waiting", "UploadBodies", "DeletedBuckets", "Backlog", "Held", "References", "Usage", "Totals", "BucketTotals", "Account", "AccountByID",
	"ListAccounts", "Key", "Keys", "ListKeys", "Nodes", "CheckUnused", "Marked", "DueMarks", "CountMarks", "Scrubs", "DueLifecycles", "LifecycleRun", "Clock", "Backlogs",
}

type attack struct {
	*user
	locked []buckets.Version
	bodies []buckets.ObjectID
	upload buckets.UploadID
}

func (a *attack) each(fn func(v buckets.Version)) {
	for _, v := range a.locked {
		a.tick()
		fn(v)
	}
}

func (a *attack) collect() {
	must(a.t, "Hold", a.h.Collector.Hold(a.t.Context(), "h", a.now, a.now+1))
	must(a.t, "Release", a.h.Collector.Release(a.t.Context(), "h"))
	a.now += year
	claim, all := a.claim(1000)
	a.each(func(v buckets.Version) {
		all = append(all, buckets.Garbage{Owner: a.owner, Bucket: a.bucket.ID, Name: v.Name, ID: v.ID, Length: v.Length, Sharks: v.Sharks, Upload: v.Upload, Deleted: 1})
	})
	a.remove(claim, all)
	must(a.t, "Unclaim", a.h.Collector.Unclaim(a.t.Context(), claim))
}

func newAttack(t *testing.T, u *user) *attack {
	a := &attack{user: u}
	null := u.put("null")
	u.locking()
	until := u.clock() + day
	governed, comply, held := buckets.Lock{Mode: buckets.Governance, Until: until}, buckets.Lock{Mode: buckets.Compliance, Until: until}, buckets.Lock{Hold: buckets.HoldOn}
	u.hold(null, buckets.HoldOn)
	id := u.createUpload("parts", u.now)
	p := part(1, 7, u.now)
	ref := u.putPart("parts", id, p)
	parts := u.complete("parts", id, ref)
	u.retain(parts, buckets.Compliance, until, false)
	small := buckets.Object{Name: "inline", Body: inline("abc"), Properties: buckets.Properties{Lock: comply}}
	objects := []buckets.Object{
		null, parts, u.putObject(small), u.putLocked("current", governed), u.putLocked("noncurrent", comply), u.putLocked("hidden", held), u.putLocked("removed", governed),
	}
	u.tick()
	u.put("noncurrent")
	u.delete("hidden")
	u.deleteVersion("removed", u.put("removed").Version)
	a.upload = id
	for i := range objects {
		v, err := u.version(objects[i].Name, objects[i].VersionID())
		must(t, "Version", err)
		a.locked = append(a.locked, v)
		if objects[i].Sharks != nil {
			a.bodies = append(a.bodies, objects[i].ID)
		}
	}
	a.bodies = append(a.bodies, p.ID)
	return a
}

func (a *attack) check(after string) {
	a.t.Helper()
	for _, want := range a.locked {
		got, err := a.version(want.Name, want.VersionID())
		must(a.t, "Version after "+after, err)
		equal(a.t, "lock of "+want.Name+" after "+after, got.Lock, want.Lock)
		wantObject(a.t, want.Name+" after "+after, got.Object, want.Object)
	}
	refs := a.references()
	for _, id := range a.bodies {
		if r, ok := refs[id]; !ok || r.Garbage {
			a.t.Errorf("after %s the body %s is %+v", after, id, r)
		}
	}
}

// lockedRows checks that no store method deletes or changes a locked version. Add new methods to attacks or readers.
func lockedRows(t *testing.T, u *user) {
	a := newAttack(t, u)
	a.check("the preparation")
	known := map[string]bool{}
	h := reflect.TypeFor[Harness]()
	for field := range h.Fields() {
		store := field.Type
		if store.Kind() != reflect.Interface {
			continue
		}
		for method := range store.Methods() {
			name := method.Name
			known[name] = true
			attack, ok := attacks[name]
			switch {
			case ok == slices.Contains(readers, name):
				t.Errorf("%s.%s is in none of the lists or in both: does it keep locked versions?", field.Name, name)
			case ok:
				attack(a)
				a.check(name)
			}
		}
	}
	for name := range attacks {
		if !known[name] {
			t.Errorf("no store has a method %s", name)
		}
	}
	a.collect()
	a.check("the garbage was removed")
	for _, v := range a.locked {
		if v.Lock.Mode == buckets.Compliance {
			continue
		}
		if v.Lock.Hold == buckets.HoldOn {
			a.hold(v.Object, buckets.HoldOff)
		}
		must(t, "Delete", a.tryErase(v.Object, true))
		if _, err := a.version(v.Name, v.VersionID()); !errors.Is(err, buckets.ErrNoVersion) {
			t.Errorf("the version of %s: %v", v.Name, err)
		}
	}
	a.wantAudit()
}
