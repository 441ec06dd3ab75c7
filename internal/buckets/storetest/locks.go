package storetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

func lockChecks() []check {
	return []check{
		{"Settings", lockSettings}, {"Governance", governance}, {"Compliance", compliance}, {"Hold", legalHold}, {"Default", defaultRetention},
		{"Metadata", lockedMetadata}, {"NullVersion", lockedNull}, {"Clock", lockClock}, {"Race", lockRace}, {"Rows", lockedRows},
	}
}

const (
	day  = 24 * hour
	year = 365 * day
)

func (u *user) lockBucket(l buckets.BucketLock) {
	u.t.Helper()
	l.Enabled = true
	must(u.t, "SetBucketLock", u.h.Versions.SetBucketLock(u.t.Context(), u.owner, u.ref(), l))
}

func (u *user) locking() {
	u.t.Helper()
	u.setVersioning(buckets.VersioningEnabled)
	u.lockBucket(buckets.BucketLock{})
}

func (u *user) clock() buckets.Moment {
	u.t.Helper()
	now, err := u.h.Lifecycles.Clock(u.t.Context())
	must(u.t, "Clock", err)
	return now
}

func (u *user) putLocked(name string, l buckets.Lock) buckets.Object {
	u.t.Helper()
	o := object(name)
	o.Lock = l
	return u.putObject(o)
}

func (u *user) tryLock(o buckets.Object, c buckets.LockChange) (buckets.Object, error) {
	return u.h.Store.Update(u.t.Context(), u.owner, u.ref(), buckets.Update{Name: o.Name, Version: o.VersionID(), Lock: &c, Now: u.now})
}

func (u *user) tryRetain(o buckets.Object, mode buckets.LockMode, until buckets.Moment, bypass bool) error {
	_, err := u.tryLock(o, buckets.LockChange{Retention: &buckets.Retention{Mode: mode, Until: until}, Bypass: bypass})
	return err
}

func (u *user) retain(o buckets.Object, mode buckets.LockMode, until buckets.Moment, bypass bool) {
	u.t.Helper()
	must(u.t, "Update", u.tryRetain(o, mode, until, bypass))
}

func (u *user) hold(o buckets.Object, s buckets.HoldStatus) {
	u.t.Helper()
	_, err := u.tryLock(o, buckets.LockChange{Hold: s})
	must(u.t, "Update", err)
}

func (u *user) tryErase(o buckets.Object, bypass bool) error {
	_, err := u.h.Store.Delete(u.t.Context(), u.owner, u.ref(), buckets.Delete{Name: o.Name, Version: o.VersionID(), Now: u.now, Bypass: bypass})
	return err
}

func wantLocked(t tb, what string, err error, l buckets.Lock) {
	t.Helper()
	locked, ok := errors.AsType[*buckets.LockedError](err)
	if !ok {
		t.Errorf("%s: the error is %v, want that of a lock", what, err)
		return
	}
	equal(t, what, locked.Lock, l)
}

func (u *user) wantLock(o buckets.Object, l buckets.Lock) {
	u.t.Helper()
	v, err := u.version(o.Name, o.VersionID())
	must(u.t, "Version", err)
	equal(u.t, "lock of "+o.Name, v.Lock, l)
}

func lockSettings(t *testing.T, u *user) {
	lock := func(l buckets.BucketLock) error {
		return u.h.Versions.SetBucketLock(t.Context(), u.owner, u.ref(), l)
	}
	read := func() buckets.BucketLock {
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		found, _, err := u.h.Store.Find(t.Context(), u.owner, u.bucket.Name, "none")
		wantError(t, "Find", err, buckets.ErrNoObject)
		equal(t, "lock with an object", found.Lock, b.Lock)
		return b.Lock
	}
	on := buckets.BucketLock{Enabled: true}
	equal(t, "at first", read(), buckets.BucketLock{})
	wantError(t, "without versions", lock(on), buckets.ErrLockVersioning)
	o := object("a")
	o.Lock.Hold = buckets.HoldOn
	_, err := u.tryPut(o, buckets.Condition{})
	wantError(t, "Put with a lock", err, buckets.ErrNoLock)
	u.setVersioning(buckets.VersioningSuspended)
	wantError(t, "suspended", lock(on), buckets.ErrLockVersioning)
	u.setVersioning(buckets.VersioningEnabled)
	_, err = u.tryPut(o, buckets.Condition{})
	wantError(t, "Put with a lock", err, buckets.ErrNoLock)
	a := u.put("a")
	_, err = u.tryLock(a, buckets.LockChange{Hold: buckets.HoldOn})
	wantError(t, "Update of a lock", err, buckets.ErrNoLock)
	for _, l := range []buckets.BucketLock{
		on, {Enabled: true, Mode: buckets.Governance, Days: 1}, {Enabled: true, Mode: buckets.Compliance, Years: buckets.MaxLockYears}, on,
	} {
		must(t, "SetBucketLock", lock(l))
		equal(t, "lock", read(), l)
	}
	wantError(t, "disabled", lock(buckets.BucketLock{}), buckets.ErrUnlock)
	for _, l := range []buckets.BucketLock{
		{Mode: buckets.Governance}, {Days: 1}, {Years: 1}, {Mode: "OTHER", Days: 1}, {Mode: buckets.Compliance, Days: 1, Years: 1},
	} {
		l.Enabled = true
		wantError(t, "a default that is not valid", lock(l), buckets.ErrRetention)
	}
	for _, l := range []buckets.BucketLock{{Days: -1}, {Days: buckets.MaxLockDays + 1}, {Years: -1}, {Years: buckets.MaxLockYears + 1}} {
		l.Enabled, l.Mode = true, buckets.Governance
		wantError(t, "a period that is not valid", lock(l), buckets.ErrRetentionPeriod)
	}
	equal(t, "unchanged", read(), on)
	wantError(t, "suspend", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningSuspended), buckets.ErrLockVersioning)
	u.setVersioning(buckets.VersioningEnabled)
	wantError(t, "no bucket", u.h.Versions.SetBucketLock(t.Context(), u.owner, newRef("none"), on), buckets.ErrNoBucket)
	wantError(t, "no account", u.h.Versions.SetBucketLock(t.Context(), "", u.ref(), on), buckets.ErrNoAccountID)
}

func governance(t *testing.T, u *user) {
	u.locking()
	until := u.clock() + day
	lock := buckets.Lock{Mode: buckets.Governance, Until: until}
	o := u.putLocked("a", lock)
	u.wantLock(o, lock)
	wantLocked(t, "Delete", u.tryErase(o, false), lock)
	u.tick()
	newer := u.put("a")
	wantLocked(t, "Delete of a noncurrent version", u.tryErase(o, false), lock)
	must(t, "Delete", u.tryErase(newer, false))
	u.wantLock(o, lock)

	wantLocked(t, "shorten", u.tryRetain(o, buckets.Governance, until-1, false), lock)
	wantLocked(t, "remove", u.tryRetain(o, "", 0, false), lock)
	wantLocked(t, "compliance", u.tryRetain(o, buckets.Compliance, until+1, false), lock)
	u.retain(o, buckets.Governance, until, false)
	u.retain(o, buckets.Governance, until+hour, false)
	u.retain(o, buckets.Governance, until, true)
	u.retain(o, "", 0, true)
	u.wantLock(o, buckets.Lock{})
	u.retain(o, buckets.Governance, until, false)
	done, err := u.h.Store.DeleteAll(t.Context(), u.owner, u.ref(), buckets.Deletions{All: []buckets.Deletion{{Name: "a", Version: o.Version}}, Now: u.now})
	must(t, "DeleteAll", err)
	wantLocked(t, "DeleteAll", done[0].Err, lock)
	u.wantUsage(1, 10)
	done, err = u.h.Store.DeleteAll(t.Context(), u.owner, u.ref(), buckets.Deletions{All: []buckets.Deletion{{Name: "a", Version: o.Version, Bypass: true}}, Now: u.now})
	must(t, "DeleteAll", errors.Join(err, done[0].Err))
	u.wantBodies(nil, ids(o, newer))
	wantError(t, "an unknown mode", u.tryRetain(u.put("b"), "OTHER", until, true), buckets.ErrRetention)
}

func compliance(t *testing.T, u *user) {
	u.locking()
	until := u.clock() + day
	lock := buckets.Lock{Mode: buckets.Compliance, Until: until}
	o := u.putLocked("a", lock)
	for _, bypass := range []bool{false, true} {
		wantLocked(t, "Delete", u.tryErase(o, bypass), lock)
		wantLocked(t, "shorten", u.tryRetain(o, buckets.Compliance, until-1, bypass), lock)
		wantLocked(t, "remove", u.tryRetain(o, "", 0, bypass), lock)
		wantLocked(t, "governance", u.tryRetain(o, buckets.Governance, until+day, bypass), lock)
	}
	u.wantLock(o, lock)
	u.retain(o, buckets.Compliance, until+hour, false)
	u.wantLock(o, buckets.Lock{Mode: buckets.Compliance, Until: until + hour})
	u.tick()
	marker := u.deleteVersion("a", "")
	equal(t, "a delete marker hides it", marker.Marker, true)
	wantLocked(t, "Delete of the hidden version", u.tryErase(o, true), buckets.Lock{Mode: buckets.Compliance, Until: until + hour})
	u.deleteVersion("a", marker.Version)
	u.wantLock(o, buckets.Lock{Mode: buckets.Compliance, Until: until + hour})
	wantError(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.now), buckets.ErrBucketNotEmpty)
	wantError(t, "DeleteAccount", u.h.Accounts.DeleteAccount(t.Context(), u.owner), buckets.ErrAccountHasBucket)
}

func legalHold(t *testing.T, u *user) {
	u.locking()
	o := u.putLocked("a", buckets.Lock{Hold: buckets.HoldOn})
	for _, bypass := range []bool{false, true} {
		wantLocked(t, "Delete", u.tryErase(o, bypass), buckets.Lock{Hold: buckets.HoldOn})
	}
	past := u.clock() - day
	u.retain(o, buckets.Compliance, past, false)
	u.retain(o, buckets.Governance, past, false)
	u.wantLock(o, buckets.Lock{Mode: buckets.Governance, Until: past, Hold: buckets.HoldOn})
	u.hold(o, buckets.HoldOff)
	u.wantLock(o, buckets.Lock{Mode: buckets.Governance, Until: past, Hold: buckets.HoldOff})
	must(t, "Delete", u.tryErase(o, false))
	marker := u.deleteVersion("a", "")
	_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Version: marker.Version, Lock: &buckets.LockChange{Hold: buckets.HoldOn}, Now: u.now})
	wantError(t, "hold of a delete marker", err, buckets.ErrMarker)
}

func defaultRetention(t *testing.T, u *user) {
	u.locking()
	id := u.createUpload("upload", u.now)
	p := part(1, 7, u.now)
	must(t, "PutPart", u.h.Uploads.PutPart(t.Context(), u.key("upload", id), p))
	before := u.put("before")
	near := func(what string, o buckets.Object, want buckets.Moment, l buckets.Lock) {
		t.Helper()
		v, err := u.version(o.Name, o.VersionID())
		must(t, "Version", err)
		if v.Lock.Until < want || v.Lock.Until > want+hour {
			t.Errorf("%s: until %v, want %v", what, v.Lock.Until.Time(), want.Time())
		}
		l.Until = v.Lock.Until
		equal(t, what, v.Lock, l)
	}
	now := u.clock()
	u.lockBucket(buckets.BucketLock{Mode: buckets.Governance, Days: 3})
	near("days", u.put("a"), now+3*day, buckets.Lock{Mode: buckets.Governance})
	near("days with a hold", u.putLocked("b", buckets.Lock{Hold: buckets.HoldOn}), now+3*day, buckets.Lock{Mode: buckets.Governance, Hold: buckets.HoldOn})
	own := buckets.Lock{Mode: buckets.Compliance, Until: now + hour}
	u.wantLock(u.putLocked("c", own), own)
	near("an upload", u.complete("upload", id, buckets.PartRef{Number: 1, ETag: hexTag(p)}), now+3*day, buckets.Lock{Mode: buckets.Governance})
	u.lockBucket(buckets.BucketLock{Mode: buckets.Compliance, Years: 2})
	near("years", u.put("d"), buckets.At(now.Time().AddDate(2, 0, 0)), buckets.Lock{Mode: buckets.Compliance})
	u.wantLock(before, buckets.Lock{})
}

func lockedMetadata(t *testing.T, u *user) {
	u.locking()
	lock := buckets.Lock{Mode: buckets.Governance, Until: u.clock() + day}
	o := u.putLocked("a", lock)
	u.tick()
	u.put("a")
	kind, roles, extra := "text/html", []string{"f0000000-0000-4000-8000-000000000001"}, json.RawMessage(`{"a":1}`)
	update := func(c buckets.Update) error {
		c.Name, c.Version, c.Now = "a", o.Version, u.tick()
		_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), c)
		return err
	}
	for _, c := range []buckets.Update{
		{ContentType: &kind}, {Headers: map[string]string{"m-a": "b"}}, {Roles: &roles}, {Extra: &extra}, {Touch: true},
		{ContentType: &kind, Lock: &buckets.LockChange{Retention: &buckets.Retention{}, Bypass: true}},
	} {
		wantLocked(t, "Update", update(c), lock)
	}
	must(t, "tags", update(buckets.Update{Tags: &map[string]string{"k": "v"}}))
	o.Tags = map[string]string{"k": "v"}
	v, err := u.version("a", o.Version)
	must(t, "Version", err)
	wantObject(t, "a", v.Object, o)
}

func lockedNull(t *testing.T, u *user) {
	o := u.put("a")
	u.locking()
	u.hold(o, buckets.HoldOn)
	wantLocked(t, "Delete", u.tryErase(o, true), buckets.Lock{Hold: buckets.HoldOn})
	u.tick()
	u.put("a")
	u.wantLock(o, buckets.Lock{Hold: buckets.HoldOn})
	u.hold(o, buckets.HoldOff)
	must(t, "Delete", u.tryErase(o, false))
}

func lockClock(t *testing.T, u *user) {
	u.locking()
	lock := buckets.Lock{Mode: buckets.Compliance, Until: u.clock() + day}
	o := u.putLocked("a", lock)
	for _, now := range []buckets.Moment{lock.Until + year, 1, lock.Until - 1} {
		u.now = now
		wantLocked(t, "Delete", u.tryErase(o, true), lock)
		wantLocked(t, "shorten", u.tryRetain(o, buckets.Compliance, lock.Until-1, true), lock)
	}
	u.now = start
	short := u.putLocked("b", buckets.Lock{Mode: buckets.Compliance, Until: u.clock() + second/5})
	for deadline := time.Now().Add(testdb.Patient(10 * time.Minute)); ; {
		ended := u.clock() > short.Lock.Until
		err := u.tryErase(short, false)
		if err == nil {
			equal(t, "the retention has ended", u.clock() > short.Lock.Until, true)
			return
		}
		wantLocked(t, "Delete", err, short.Lock)
		if ended || time.Now().After(deadline) {
			t.Fatal("the retention did not end")
		}
	}
}

func lockRace(t *testing.T, u *user) {
	u.locking()
	until := u.clock() + day
	for round := range 20 {
		o := u.put("a")
		if round%2 == 1 {
			u.tick()
			u.put("a") // makes o noncurrent
		}
		errs := testdb.Concurrently(8, func(i int) error {
			if i%2 == 0 {
				return u.tryRetain(o, buckets.Compliance, until, false)
			}
			return u.tryErase(o, true)
		})
		locks, deletions := 0, 0
		for i, err := range errs {
			_, locked := errors.AsType[*buckets.LockedError](err)
			switch {
			case err == nil && i%2 == 0:
				locks++
			case err == nil:
				deletions++
			case i%2 == 0 && !errors.Is(err, buckets.ErrNoVersion), i%2 == 1 && !locked && !errors.Is(err, buckets.ErrNoVersion):
				t.Errorf("%v", err)
			}
		}
		if locks > 0 == (deletions > 0) || deletions > 1 {
			t.Fatalf("%d locks and %d deletions succeeded", locks, deletions)
		}
		_, err := u.version("a", o.VersionID())
		equal(t, "the version exists", err == nil, locks > 0)
	}
	u.wantAudit()
}
