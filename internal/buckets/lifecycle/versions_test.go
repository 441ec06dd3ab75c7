package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"

	"holdfast/internal/buckets"
)

func (u *user) versioned(name string, rules ...buckets.LifecycleRule) buckets.Bucket {
	u.t.Helper()
	b := u.bucket(name, rules...)
	u.must(u.store.SetVersioning(u.t.Context(), u.owner, b.BucketRef, buckets.VersioningEnabled))
	return b
}

func (u *user) remove(b buckets.Bucket, name string) {
	u.t.Helper()
	_, err := u.store.Delete(u.t.Context(), u.owner, b.BucketRef, buckets.Delete{Name: name, Now: u.store.now})
	u.must(err)
}

// versions checks the versions of each name: "+" is a current object, "-" a delete marker.
func (u *user) versions(b buckets.Bucket, want ...string) {
	u.t.Helper()
	page, err := u.store.ListVersions(u.t.Context(), u.owner, b.ID, buckets.VersionQuery{Limit: buckets.MaxPage})
	u.must(err)
	counts := map[string]int{}
	for i := range page.Versions {
		switch v := &page.Versions[i]; {
		case v.Marker:
			counts[v.Name+"-"]++
		case v.Current:
			counts[v.Name+"+"]++
		default:
			counts[v.Name]++
		}
	}
	var got []string
	for name, n := range counts {
		got = append(got, fmt.Sprint(name, " ", n))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		u.t.Errorf("%s has %q, want %q", b.Name, got, want)
	}
}

func noncurrent(id string, days int, keep *int) buckets.LifecycleRule {
	return buckets.LifecycleRule{ID: id, Filter: &buckets.LifecycleFilter{Prefix: new(string)}, Noncurrent: &buckets.NoncurrentVersion{Days: days, Keep: keep}}
}

func TestSweepNoncurrent(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b, keep := u.versioned("all", noncurrent("old", 2, nil)), u.versioned("keep", noncurrent("old", 2, new(3)))
	plain := u.bucket("plain", noncurrent("old", 2, nil))
	for _, in := range []buckets.Bucket{b, keep} {
		for range 6 {
			u.put(in, nil, "a", "b")
			u.store.now++
		}
	}
	u.put(plain, nil, "a")
	r := u.runner()
	u.sweep(r, 1000, 0)
	u.versions(b, "a 5", "a+ 1", "b 5", "b+ 1")
	u.store.now = 20_003 * day
	u.put(b, nil, "b") // makes the previous version noncurrent
	u.sweep(r, 3, 3)
	u.sweep(r, 1000, 11)
	u.versions(b, "a+ 1", "b 1", "b+ 1")
	u.versions(keep, "a 3", "a+ 1", "b 3", "b+ 1")
	u.want(plain, "a")
	usage, err := u.store.BucketTotals(t.Context(), u.owner, []buckets.BucketRef{b.BucketRef, keep.BucketRef})
	u.must(err)
	if usage[0].Usage != (buckets.Usage{Objects: 3, Bytes: 3}) || usage[1].Usage != (buckets.Usage{Objects: 8, Bytes: 8}) {
		t.Errorf("%+v", usage)
	}
	if got := u.run(keep).ByRule["old"]; got.Objects != 4 || got.Bytes != 4 {
		t.Errorf("%+v", got)
	}
}

func TestSweepLocked(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.versioned("locked", noncurrent("old", 2, nil))
	u.must(u.store.SetBucketLock(t.Context(), u.owner, b.BucketRef, buckets.BucketLock{Enabled: true}))
	for range 3 {
		u.put(b, nil, "a", "b", "c")
		u.store.now++
	}
	hold := func(s buckets.HoldStatus) {
		t.Helper()
		page, err := u.store.ListVersions(t.Context(), u.owner, b.ID, buckets.VersionQuery{Limit: 2})
		u.must(err)
		_, err = u.store.Update(t.Context(), u.owner, b.BucketRef, buckets.Update{Name: "a", Version: page.Versions[1].VersionID(), Lock: &buckets.LockChange{Hold: s}, Now: u.store.now})
		u.must(err)
	}
	hold(buckets.HoldOn)
	u.store.now += 5 * day
	r := u.runner()
	u.sweep(r, 1, 1)
	u.sweep(r, 1000, 4)
	u.versions(b, "a 1", "a+ 1", "b+ 1", "c+ 1")
	if run := u.run(b); run.Error != "" || run.Ended == 0 {
		t.Errorf("%+v", run)
	}
	hold(buckets.HoldOff)
	u.store.now += day
	u.sweep(r, 1000, 1)
	u.versions(b, "a+ 1", "b+ 1", "c+ 1")
}

// TestSweepMarkers checks that an expired object gets a delete marker, which is removed after the object's version.
func TestSweepMarkers(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	all := rule("all", "", 1)
	all.Noncurrent = &buckets.NoncurrentVersion{Days: 1}
	removes := buckets.LifecycleRule{ID: "markers", Filter: &buckets.LifecycleFilter{Prefix: new("m/")}, Expiration: &buckets.Expiration{DeleteMarker: new(true)}}
	b, markers := u.versioned("photos", all), u.versioned("markers", removes)
	u.put(b, nil, "a")
	u.put(markers, nil, "m/kept", "x")
	u.store.now++
	for _, name := range []string{"m/kept", "m/1", "m/2", "x", "y"} {
		u.remove(markers, name)
	}
	u.store.now = 20_010 * day
	u.remove(markers, "m/ahead") // while the clock is ahead
	u.store.now = 20_002 * day
	r := u.runner()
	u.sweep(r, 1, 1)
	u.sweep(r, 1000, 3)
	u.versions(b, "a 1", "a- 1")
	u.versions(markers, "m/kept 1", "m/kept- 1", "x 1", "x- 1", "y- 1")
	u.store.now = 20_004 * day
	u.sweep(r, 1000, 1)
	u.versions(b, "a- 1")
	u.store.now = 20_005 * day
	u.sweep(r, 1000, 1)
	u.versions(b)
}

// TestSweepRevealed checks that a version that became current after it was read is kept.
func TestSweepRevealed(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.versioned("photos", noncurrent("old", 1, nil))
	u.put(b, nil, "a")
	u.store.now++
	u.put(b, nil, "a")
	u.store.now = 20_003 * day
	u.store.beforeDelete = func(d *buckets.Delete) {
		if !d.Noncurrent {
			return
		}
		page, err := u.store.ListVersions(t.Context(), u.owner, b.ID, buckets.VersionQuery{Limit: 9})
		u.must(err)
		_, err = u.store.Store.Delete(t.Context(), u.owner, b.BucketRef, buckets.Delete{Name: "a", Version: page.Versions[0].VersionID(), Now: u.store.now})
		u.must(err)
	}
	u.sweep(u.runner(), 100, 0)
	u.versions(b, "a+ 1")
}

func TestSweepRetention(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.versioned("photos", noncurrent("old", 1, nil), rule("all", "expired", 1))
	u.must(u.store.SetBucketLock(t.Context(), u.owner, b.BucketRef, buckets.BucketLock{Enabled: true}))
	lock := func(name string, c buckets.LockChange) {
		t.Helper()
		_, err := u.store.Update(t.Context(), u.owner, b.BucketRef, buckets.Update{Name: name, Lock: &c, Now: u.store.now})
		u.must(err)
	}
	now, err := u.store.Store.Clock(t.Context()) // the store compares with its own clock
	u.must(err)
	until := buckets.LockChange{Retention: &buckets.Retention{Mode: buckets.Governance, Until: max(now, u.store.now) + 10*day}}
	u.put(b, nil, "a", "b", "c", "expired")
	lock("a", until)
	lock("b", buckets.LockChange{Hold: buckets.HoldOn})
	lock("expired", until)
	u.store.now++
	u.put(b, nil, "a", "b", "c")
	u.store.now += 3 * day
	r := u.runner()
	u.sweep(r, 100, 2)
	u.versions(b, "a 1", "a+ 1", "b 1", "b+ 1", "c+ 1", "expired 1", "expired- 1")
	if run := u.run(b); run.Error != "" || run.Ended == 0 {
		t.Errorf("the run is %+v", run)
	}
	// A version locked after it was read is also kept.
	u.store.now += 2 * day
	u.put(b, nil, "c")
	u.store.now += 2 * day
	u.store.beforeDelete = func(d *buckets.Delete) {
		_, err := u.store.Store.Update(t.Context(), u.owner, b.BucketRef, buckets.Update{Name: d.Name, Version: d.Version, Lock: &buckets.LockChange{Hold: buckets.HoldOn}, Now: u.store.now})
		u.must(err)
	}
	u.sweep(r, 100, 0)
	u.versions(b, "a 1", "a+ 1", "b 1", "b+ 1", "c 1", "c+ 1", "expired 1", "expired- 1")
	if run := u.run(b); run.Error != "" || run.Ended == 0 {
		t.Errorf("the run is %+v", run)
	}
}
