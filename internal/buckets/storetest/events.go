package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/buckets"
)

func eventChecks() []check {
	return []check{
		{"Written", eventsOfWrites},
		{"Failed", noEventsOfFailures},
		{"Versions", eventsOfVersions},
		{"Upload", eventsOfUploads},
		{"Expire", eventsOfExpiry},
		{"DeleteAll", eventsOfBatches},
		{"Order", eventsInOrder},
		{"Ascending", eventsAscend},
		{"Drop", dropEvents},
		{"Settings", eventsOfSettings},
	}
}

type Appended struct {
	Destination, Stream, Key string
	Seq                      int64
	Payload                  string
	At                       buckets.Moment
}

func (u *user) notices(created buckets.EventName, expired bool) *buckets.Notice {
	rules := &buckets.Notifications{Rules: []buckets.NotificationRule{{
		ID: "all", ARN: "arn:holdfast:webhook:::hook", Events: []string{"s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*"},
		Filters: []buckets.NameFilter{{Name: "suffix", Value: ".jpg"}},
	}}}
	return &buckets.Notice{Owner: u.owner, Bucket: u.ref(), Rules: rules, Created: created, Expired: expired}
}

func (u *user) appended() (all []string) {
	u.t.Helper()
	last := map[string]int64{}
	for _, e := range u.h.Appended(u.t, u.owner) {
		var p struct{ Event, Key, ETag, Version string }
		if err := json.Unmarshal([]byte(e.Payload), &p); err != nil || e.Destination != "hook" || e.Key != u.bucket.Name+"/"+p.Key {
			u.t.Fatalf("%+v, %v", e, err)
		}
		if e.Seq <= last[e.Stream] {
			u.t.Fatalf("%+v comes after number %d", e, last[e.Stream])
		}
		last[e.Stream] = e.Seq
		all = append(all, strings.TrimSpace(strings.Join([]string{p.Event, p.Key, p.ETag, p.Version}, " ")))
	}
	return all
}

func (u *user) noticedPut(o buckets.Object, c buckets.Condition) (buckets.Written, error) {
	return u.h.Store.Put(u.t.Context(), u.owner, u.ref(), buckets.Put{Object: o, Condition: c, Now: u.now, Notice: u.notices(buckets.EventCopy, false)})
}

func (u *user) noticedDelete(d buckets.Delete) (buckets.Deleted, error) {
	d.Now, d.Notice = u.now, u.notices("", false)
	return u.h.Store.Delete(u.t.Context(), u.owner, u.ref(), d)
}

func eventsOfWrites(t *testing.T, u *user) {
	var want []string
	for range 2 {
		w, err := u.noticedPut(object("a.jpg"), buckets.Condition{})
		must(t, "Put", err)
		want = append(want, "ObjectCreated:Copy a.jpg "+w.Object.EntityTag())
	}
	_, err := u.noticedPut(object("a.png"), buckets.Condition{})
	must(t, "Put", err)
	u.put("b.jpg")
	for _, name := range []string{"a.jpg", "a.png"} {
		_, err = u.noticedDelete(buckets.Delete{Name: name})
		must(t, "Delete", err)
	}
	equal(t, "the events", u.appended(), append(want, "ObjectRemoved:Delete a.jpg"))
}

func noEventsOfFailures(t *testing.T, u *user) {
	_, err := u.noticedPut(object("a.jpg"), buckets.Condition{Match: buckets.Tags{Any: true}})
	if err == nil {
		t.Fatal("the condition holds")
	}
	must(t, "SetQuota", u.h.Counters.SetQuota(t.Context(), u.owner, u.ref(), buckets.Quota{Bytes: 5}))
	if _, err = u.noticedPut(object("a.jpg"), buckets.Condition{}); !errors.As(err, new(*buckets.QuotaError)) {
		t.Fatal(err)
	}
	_, err = u.noticedDelete(buckets.Delete{Name: "a.jpg"})
	wantError(t, "Delete", err, buckets.ErrNoObject)
	must(t, "SetQuota", u.h.Counters.SetQuota(t.Context(), u.owner, u.ref(), buckets.Quota{}))
	o := u.put("a.jpg")
	other := o
	other.ID = buckets.ObjectID(buckets.NewUUID())
	_, err = u.noticedDelete(buckets.Delete{Name: "a.jpg", Unchanged: &other})
	wantError(t, "Delete", err, buckets.ErrPrecondition)
	equal(t, "the events", u.appended(), nil)
	u.get("a.jpg")
}

func eventsOfVersions(t *testing.T, u *user) {
	must(t, "SetVersioning", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningEnabled))
	w, err := u.noticedPut(object("a.jpg"), buckets.Condition{})
	must(t, "Put", err)
	marker, err := u.noticedDelete(buckets.Delete{Name: "a.jpg"})
	must(t, "Delete", err)
	for _, id := range []buckets.VersionID{marker.Version, w.Version} {
		_, err = u.noticedDelete(buckets.Delete{Name: "a.jpg", Version: id})
		must(t, "Delete", err)
	}
	equal(t, "the events", u.appended(), []string{
		fmt.Sprintf("ObjectCreated:Copy a.jpg %s %s", w.Object.EntityTag(), w.Version),
		fmt.Sprintf("ObjectRemoved:DeleteMarkerCreated a.jpg  %s", marker.Version),
		fmt.Sprintf("ObjectRemoved:Delete a.jpg  %s", marker.Version), fmt.Sprintf("ObjectRemoved:Delete a.jpg  %s", w.Version),
	})
}

func eventsOfUploads(t *testing.T, u *user) {
	id := buckets.NewUploadID(u.now)
	up := buckets.Upload{ID: id, Name: "a.jpg", Created: u.now}
	must(t, "CreateUpload", u.h.Uploads.CreateUpload(t.Context(), u.owner, u.ref(), up))
	p := buckets.Part{Number: 1, Body: stored(10), Created: u.now}
	must(t, "PutPart", u.h.Uploads.PutPart(t.Context(), u.key("a.jpg", id), p))
	var etag string
	for range 2 {
		w, err := u.h.Uploads.Complete(t.Context(), u.key("a.jpg", id), buckets.Completion{
			Object: buckets.ObjectID(buckets.NewUUID()), Parts: []buckets.PartRef{{Number: 1, ETag: fmt.Sprintf("%x", p.MD5)}}, Now: u.now,
			Notice: u.notices(buckets.EventComplete, false),
		})
		must(t, "Complete", err)
		etag = w.Object.EntityTag()
	}
	equal(t, "the events", u.appended(), []string{"ObjectCreated:CompleteMultipartUpload a.jpg " + etag})
}

func eventsOfExpiry(t *testing.T, u *user) {
	expire := func(n int) (read []*buckets.Object) {
		for i := range n {
			o := u.put(fmt.Sprintf("%03d.jpg", i))
			read = append(read, &o)
		}
		u.tick()
		changed := u.put("000.jpg")
		done, err := u.h.Lifecycles.Expire(t.Context(), u.owner, u.ref(), buckets.Expired{Objects: read, Now: u.now, Notice: u.notices("", true)})
		must(t, "Expire", err)
		equal(t, "deleted", slices.Index(done, true), 1)
		equal(t, "the body", u.get("000.jpg").ID, changed.ID)
		return read
	}
	expire(130)
	all := u.appended()
	slices.Sort(all)
	equal(t, "events", len(all), 129)
	equal(t, "the first event", all[0], "LifecycleExpiration:Delete 001.jpg")

	must(t, "SetVersioning", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningEnabled))
	expire(3)
	all = u.appended()[129:]
	slices.Sort(all)
	equal(t, "events with versions", len(all), 2)
	if !strings.HasPrefix(all[1], "LifecycleExpiration:DeleteMarkerCreated 002.jpg ") {
		t.Error(all)
	}
}

func eventsOfBatches(t *testing.T, u *user) {
	remove := func(all ...buckets.Deletion) []buckets.Deleted {
		u.tick()
		done, err := u.h.Store.DeleteAll(t.Context(), u.owner, u.ref(), buckets.Deletions{All: all, Now: u.now, Notice: u.notices("", false)})
		must(t, "DeleteAll", err)
		return done
	}
	for _, name := range []string{"a.jpg", "b.jpg", "c.jpg", "d.png"} {
		u.put(name)
	}
	remove(buckets.Deletion{Name: "none.jpg"}, buckets.Deletion{Name: "c.jpg", ETag: "other"}, buckets.Deletion{Name: "d.png"},
		buckets.Deletion{Name: "b.jpg"}, buckets.Deletion{Name: "a.jpg"}, buckets.Deletion{Name: "a.jpg"})
	all := u.appended()
	slices.Sort(all)
	equal(t, "the events", all, []string{"ObjectRemoved:Delete a.jpg", "ObjectRemoved:Delete b.jpg"})
	u.get("c.jpg")
	remove(buckets.Deletion{Name: "none.jpg"})
	equal(t, "events", len(u.appended()), 2)

	must(t, "SetVersioning", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningEnabled))
	w, err := u.noticedPut(object("a.jpg"), buckets.Condition{})
	must(t, "Put", err)
	done := remove(buckets.Deletion{Name: "a.jpg"}, buckets.Deletion{Name: "d.png"})
	equal(t, "events with versions", u.appended()[3:], []string{fmt.Sprintf("ObjectRemoved:DeleteMarkerCreated a.jpg  %s", done[0].Version)})
	remove(buckets.Deletion{Name: "a.jpg", Version: w.Version})
	equal(t, "events of versions", u.appended()[4:], []string{fmt.Sprintf("ObjectRemoved:Delete a.jpg  %s", w.Version)})
}

func eventsInOrder(t *testing.T, u *user) {
	must(t, "SetVersioning", u.h.Versions.SetVersioning(t.Context(), u.owner, u.ref(), buckets.VersioningEnabled))
	stores := []buckets.Store{u.h.Store}
	if u.h.Second != nil {
		stores = append(stores, u.h.Second(t))
	}
	var writers sync.WaitGroup
	for i := range 32 {
		writers.Go(func() {
			now := u.now + buckets.Moment(i%3)*second // the clocks of writers differ
			s := stores[i%len(stores)]
			var err error
			if i%4 == 3 {
				_, err = s.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: "a.jpg", Now: now, Notice: u.notices("", false)})
			} else {
				_, err = s.Put(t.Context(), u.owner, u.ref(), buckets.Put{Object: object("a.jpg"), Now: now, Notice: u.notices(buckets.EventPut, false)})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	page, err := u.h.Versions.ListVersions(t.Context(), u.owner, u.bucket.ID, buckets.VersionQuery{Limit: 100})
	must(t, "ListVersions", err)
	var want []string
	for _, v := range slices.Backward(page.Versions) {
		want = append(want, string(v.VersionID()))
	}
	var got []string
	for _, e := range u.appended() {
		words := strings.Fields(e)
		got = append(got, words[len(words)-1])
	}
	equal(t, "the order of the events", got, want)
}

func eventsAscend(t *testing.T, u *user) {
	last := int64(0)
	for i := range 5 {
		now := u.now - buckets.Moment(i)*hour
		_, err := u.h.Store.Put(t.Context(), u.owner, u.ref(), buckets.Put{Object: object("a.jpg"), Now: now, Notice: u.notices(buckets.EventPut, false)})
		must(t, "Put", err)
		all := u.h.Appended(t, u.owner)
		e := all[len(all)-1]
		if e.Seq <= last {
			t.Errorf("%d comes after %d", e.Seq, last)
		}
		last = e.Seq
		if i%2 == 0 {
			_, err = u.h.Events.DropEvents(t.Context(), "hook", u.now+hour, 0)
			must(t, "DropEvents", err)
		}
	}
}

func dropEvents(t *testing.T, u *user) {
	began := u.now
	for range 10 {
		u.tick()
		_, err := u.noticedPut(object("a.jpg"), buckets.Condition{})
		must(t, "Put", err)
	}
	backlogs, err := u.h.Events.Backlogs(t.Context())
	must(t, "Backlogs", err)
	equal(t, "Backlogs", backlogs, []buckets.EventBacklog{{Destination: "hook", Events: 10, Oldest: began + second}})
	for _, c := range []struct {
		destination   string
		before        buckets.Moment
		excess        int64
		dropped, left int
	}{{"other", u.now, 9, 0, 10}, {"hook", began, 0, 0, 10}, {"hook", began + 3*second, 0, 2, 8}, {"hook", began, 3, 3, 5}, {"hook", began, 50, 5, 0}} {
		n, err := u.h.Events.DropEvents(t.Context(), c.destination, c.before, c.excess)
		must(t, "DropEvents", err)
		equal(t, fmt.Sprintf("%+v", c), int(n), c.dropped)
		equal(t, "left", len(u.h.Appended(t, u.owner)), c.left)
	}
	n, err := u.h.Events.DropDeadEvents(t.Context(), u.now)
	must(t, "DropDeadEvents", err)
	equal(t, "dead events", int(n), 0)
}

func eventsOfSettings(t *testing.T, u *user) {
	stream := buckets.NewUUID()
	set := func(b buckets.BucketRef, was *buckets.Moment) error {
		events := []buckets.Event{{Destination: "hook", Stream: stream, Key: u.bucket.Name, Payload: []byte(`{"event":"TestEvent"}`), At: u.now}}
		n := buckets.Notifications{Rules: []buckets.NotificationRule{{ID: "a", Target: buckets.TargetQueue, ARN: "arn:holdfast:webhook:::hook", Events: []string{"s3:ObjectCreated:*"}}}}
		return u.h.Store.SetBucket(t.Context(), u.owner, b, buckets.SettingsChange{Notifications: &n, LifecycleWas: was, Events: &events})
	}
	other := u.ref()
	other.ID = buckets.BucketID(buckets.NewUUID())
	wantError(t, "SetBucket", set(other, nil), buckets.ErrNoBucket)
	wantError(t, "SetBucket", set(u.ref(), new(buckets.Moment(7))), buckets.ErrPrecondition)
	equal(t, "events of refused changes", len(u.h.Appended(t, u.owner)), 0)
	rules := func() int {
		b, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
		must(t, "Bucket", err)
		return len(b.Settings.Notifications.Rules)
	}
	equal(t, "rules after refused changes", rules(), 0)
	for range 2 {
		must(t, "SetBucket", set(u.ref(), nil))
	}
	all := u.h.Appended(t, u.owner)
	if len(all) != 2 || all[0].Seq >= all[1].Seq || all[0].Stream != stream || all[0].Key != u.bucket.Name || all[0].Destination != "hook" {
		t.Errorf("%+v", all)
	}
	equal(t, "rules", rules(), 1)
}
