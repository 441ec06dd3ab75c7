package lifecycle_test

import (
	"context"
	"crypto/md5"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/lifecycle"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb/opened"
)

const (
	day   = buckets.Moment(24 * time.Hour / time.Microsecond)
	start = 20_000*day + 5*day/10 // noon
)

// store has a manual clock and calls a function before each Expire.
type store struct {
	*sqlite.Store
	now    buckets.Moment
	before func(*buckets.Expired) error

	beforeDelete func(*buckets.Delete)
}

func (s *store) Delete(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (buckets.Deleted, error) {
	if s.beforeDelete != nil {
		s.beforeDelete(&d)
	}
	return s.Store.Delete(ctx, owner, b, d)
}

func (s *store) Clock(context.Context) (buckets.Moment, error) { return s.now, nil }

func (s *store) Expire(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, e buckets.Expired) ([]bool, error) {
	if s.before != nil {
		if err := s.before(&e); err != nil {
			return nil, err
		}
	}
	return s.Store.Expire(ctx, owner, b, e)
}

type user struct {
	t     *testing.T
	store *store
	owner buckets.AccountID
	jump  buckets.Moment // how far the database clock is ahead
	done  buckets.LifecycleResult
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t, store: &store{Store: sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations)), now: start}, owner: buckets.AccountID(buckets.NewUUID())}
	u.must(u.store.CreateAccount(t.Context(), buckets.Account{ID: u.owner, Name: "main", Created: start}))
	return u
}

func (u *user) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) runner() *lifecycle.Runner {
	return lifecycle.New(lifecycle.Options{
		Store: u.store, Clock: func() time.Time { return u.store.now.Time() }, Monotonic: func() time.Time { return (u.store.now - u.jump).Time() }, Log: slog.New(slog.DiscardHandler),
		Observe: func(r buckets.LifecycleResult) {
			u.done.Read += r.Read
			u.done.Deleted, u.done.Aborted = u.done.Deleted.Plus(r.Deleted), u.done.Aborted+r.Aborted
		},
	})
}

func (u *user) bucket(name string, rules ...buckets.LifecycleRule) buckets.Bucket {
	u.t.Helper()
	b, err := u.store.CreateBucket(u.t.Context(), u.owner, buckets.BucketRef{Name: name, ID: buckets.BucketID(buckets.NewUUID())}, u.store.now)
	u.must(err)
	return u.set(b, rules...)
}

func (u *user) set(b buckets.Bucket, rules ...buckets.LifecycleRule) buckets.Bucket {
	u.t.Helper()
	l := buckets.Lifecycle{Rules: rules, Changed: u.store.now, Bucket: b.Name}
	u.store.now++
	u.must(u.store.SetBucket(u.t.Context(), u.owner, b.BucketRef, buckets.SettingsChange{Lifecycle: &l}))
	b, err := u.store.Bucket(u.t.Context(), u.owner, b.Name)
	u.must(err)
	return b
}

func (u *user) put(b buckets.Bucket, tags map[string]string, names ...string) {
	u.t.Helper()
	sum := md5.Sum(nil)
	for _, name := range names {
		o := buckets.Object{Name: name, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: sum[:], Inline: []byte("x")}, Properties: buckets.Properties{Tags: tags}}
		_, err := u.store.Put(u.t.Context(), u.owner, b.BucketRef, buckets.Put{Object: o, Now: u.store.now})
		u.must(err)
	}
}

func (u *user) want(b buckets.Bucket, names ...string) {
	u.t.Helper()
	page, err := u.store.List(u.t.Context(), u.owner, b.ID, buckets.Query{Limit: buckets.MaxPage})
	u.must(err)
	var got []string
	for _, e := range page.Entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		u.t.Errorf("%s has %q, want %q", b.Name, got, names)
	}
}

func (u *user) sweep(r *lifecycle.Runner, limit, want int) {
	u.t.Helper()
	n, err := r.Sweep(u.t.Context(), limit)
	u.must(err)
	if n != want {
		u.t.Errorf("swept %d, want %d", n, want)
	}
}

func (u *user) run(b buckets.Bucket) buckets.LifecycleRun {
	u.t.Helper()
	run, err := u.store.LifecycleRun(u.t.Context(), b.Key())
	u.must(err)
	return run
}

func rule(id, prefix string, days int) buckets.LifecycleRule {
	return buckets.LifecycleRule{ID: id, Filter: &buckets.LifecycleFilter{Prefix: &prefix}, Expiration: &buckets.Expiration{Days: days}}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	tagged := buckets.LifecycleRule{ID: "tagged", Filter: &buckets.LifecycleFilter{Tags: []buckets.Tag{{Key: "k", Value: "v"}}}, Expiration: &buckets.Expiration{Days: 1}}
	b := u.bucket("photos", rule("logs", "logs/", 2), rule("tmp", "tmp/", 1), tagged)
	none := u.bucket("none")
	u.put(b, nil, "a", "logs", "logs/1", "logs/2", "tmp/1", "tmpx")
	u.put(b, map[string]string{"k": "v"}, "z")
	u.put(none, nil, "tmp/1")
	r := u.runner()
	u.sweep(r, 100, 0)
	u.store.now = 20_002*day - 1
	u.sweep(r, 100, 0)
	u.want(b, "a", "logs", "logs/1", "logs/2", "tmp/1", "tmpx", "z")
	u.store.now = 20_002 * day
	u.sweep(r, 100, 2)
	u.want(b, "a", "logs", "logs/1", "logs/2", "tmpx")
	u.store.now = 20_003 * day
	u.sweep(r, 100, 2)
	u.sweep(r, 100, 0)
	u.want(b, "a", "logs", "tmpx")
	u.want(none, "tmp/1")
	run := u.run(b)
	want := map[string]buckets.Counts{"logs": {Usage: buckets.Usage{Objects: 2, Bytes: 2}}}
	if run.Began != u.store.now || run.Ended == 0 || run.Due != 20_004*day || fmt.Sprint(run.ByRule) != fmt.Sprint(want) || run.Deleted.Objects != 2 {
		t.Errorf("%+v", run)
	}
	if u.done.Deleted != (buckets.Usage{Objects: 4, Bytes: 4}) {
		t.Errorf("%+v", u.done)
	}
	usage, err := u.store.BucketTotals(t.Context(), u.owner, []buckets.BucketRef{b.BucketRef})
	u.must(err)
	if usage[0].Usage != (buckets.Usage{Objects: 3, Bytes: 3}) {
		t.Errorf("%+v", usage)
	}
}

func TestSweepPrefixes(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("b", "b", 1), rule("d", "d/", 1), rule("bb", "bb", 3))
	u.put(b, nil, "a", "b", "bb", "c", "d", "d/1", "e")
	u.store.now += 3 * day
	u.sweep(u.runner(), 100, 3)
	u.want(b, "a", "c", "d", "e")
	if u.done.Read != 3 {
		t.Errorf("%d objects were read, want 3", u.done.Read)
	}
}

// TestSweepUnchanged checks that an object changed after it was read is kept.
func TestSweepUnchanged(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("a", "", 1))
	u.put(b, nil, "a", "b")
	u.store.now += 3 * day
	u.store.before = func(*buckets.Expired) error {
		u.put(b, nil, "a")
		return nil
	}
	u.sweep(u.runner(), 100, 1)
	u.want(b, "a")
}

// TestSweepTurns checks that buckets take turns in bounded steps, and that another process can continue a run.
func TestSweepTurns(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	var all []buckets.Bucket
	for _, name := range []string{"one", "two", "three"} {
		b := u.bucket(name, rule("a", "", 1))
		for i := range 10 {
			u.put(b, nil, fmt.Sprintf("%02d", i))
		}
		all = append(all, b)
	}
	u.store.now += 3 * day
	first := u.runner()
	for range 3 {
		u.sweep(first, 4, 4)
	}
	for _, b := range all {
		u.want(b, "04", "05", "06", "07", "08", "09")
	}
	second := u.runner()
	u.sweep(second, 100, 0) // the other process has the lease
	u.must(u.store.EndLease(t.Context(), "lifecycle", u.holder()))
	u.sweep(second, 100, 18)
	for _, b := range all {
		u.want(b)
		if run := u.run(b); run.Read != 10 || run.Deleted.Objects != 10 || run.Ended == 0 {
			t.Errorf("%+v", run)
		}
	}
	u.sweep(u.runner(), 100, 0)
}

func (u *user) holder() string {
	u.t.Helper()
	l, err := u.store.Lease(u.t.Context(), buckets.Lease{Name: "lifecycle", Holder: "test", Left: time.Hour})
	u.must(err)
	return l.Holder
}

func TestSweepChangedRules(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("a", "a", 1))
	u.put(b, nil, "a1", "a2", "b1", "b2")
	u.store.now += 3 * day
	r := u.runner()
	u.sweep(r, 1, 1)
	b = u.set(b, rule("b", "b", 1))
	u.sweep(r, 100, 2)
	u.want(b, "a2")
	b = u.set(b)
	u.put(b, nil, "b1")
	u.store.now += 3 * day
	u.sweep(r, 100, 0)
	u.want(b, "a2", "b1")
	off := rule("off", "", 1)
	off.Disabled = true
	b = u.set(b, off)
	u.sweep(r, 100, 0)
	if run := u.run(b); run.Due < u.store.now+365*day {
		t.Errorf("the next run of disabled rules is %v", run.Due.Time())
	}
}

// TestSweepFailure checks that a failing bucket is retried later without delaying others.
func TestSweepFailure(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	bad, good := u.bucket("bad", rule("a", "", 1)), u.bucket("good", rule("a", "", 1))
	u.put(bad, nil, "bad")
	u.put(good, nil, "good")
	u.store.now += 3 * day
	fail := true
	u.store.before = func(e *buckets.Expired) error {
		if fail && e.Objects[0].Name == "bad" {
			return errcode.New(errcode.Internal, "it is broken")
		}
		return nil
	}
	r := u.runner()
	u.sweep(r, 100, 1)
	u.want(good)
	if run := u.run(bad); run.Error != "it is broken" || run.Due <= u.store.now {
		t.Errorf("%+v", run)
	}
	u.sweep(r, 100, 0)
	fail = false
	u.store.now = u.run(bad).Due
	u.sweep(r, 100, 1)
	u.want(bad)
	if run := u.run(bad); run.Error != "" || run.Ended == 0 {
		t.Errorf("%+v", run)
	}
}

func TestSweepUploads(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", buckets.LifecycleRule{ID: "uploads", Filter: &buckets.LifecycleFilter{Prefix: new(string)}, AbortDays: 9},
		buckets.LifecycleRule{ID: "videos", Prefix: new("videos/"), AbortDays: 2})
	create := func(names ...string) {
		for _, name := range names {
			u.must(u.store.CreateUpload(t.Context(), u.owner, b.BucketRef, buckets.Upload{ID: buckets.NewUploadID(u.store.now), Name: name, Created: u.store.now}))
		}
	}
	create("a", "videos/1", "videos/1", "videos/2", "w")
	u.store.now += 2 * day
	create("videos/1")
	u.store.now = start + day*25/10
	r := u.runner()
	u.sweep(r, 2, 2)
	u.sweep(r, 100, 1)
	page, err := u.store.ListUploads(t.Context(), u.owner, b.ID, buckets.UploadQuery{Limit: 9})
	u.must(err)
	var names []string
	for _, up := range page.Uploads {
		names = append(names, up.Name)
	}
	if got := strings.Join(names, " "); got != "a videos/1 w" {
		t.Errorf("the uploads are %s", got)
	}
	if run := u.run(b); run.Aborted != 3 || run.ByRule["videos"].Uploads != 3 {
		t.Errorf("%+v", run)
	}
	u.store.now += 9 * day
	u.sweep(r, 100, 3)
}

// TestRun checks that Run does not wait until rules are due, waits for the lease, and reports its progress.
func TestRun(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("a", "", 1))
	r := u.runner()
	u.sweep(r, 100, 0)
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprintf("%04d", i))
	}
	u.store.now -= 5 * day
	u.put(b, nil, names...)
	u.store.now += 5 * day
	other := u.runner()
	held := buckets.Lease{Name: "lifecycle", Holder: "another", Process: "process 1", Left: 30 * time.Second}
	_, err := u.store.Lease(t.Context(), held)
	u.must(err)
	var last, waits int64
	run, err := other.Run(t.Context(), &b, func(p buckets.LifecycleResult) { last = p.Deleted.Objects }, func(string) {
		waits++
		u.must(u.store.EndLease(t.Context(), held.Name, held.Holder))
	})
	u.must(err)
	if run.Ended == 0 || run.Deleted.Objects != 1500 || last != 1500 || waits != 1 || run.Previous != nil {
		t.Errorf("%+v, %d, %d waits", run, last, waits)
	}
	u.want(b)
	if has, err := u.store.Lease(t.Context(), held); err != nil || has.Holder != held.Holder {
		t.Errorf("the lease after a run: %+v %v", has, err)
	}
	u.must(u.store.EndLease(t.Context(), held.Name, held.Holder))
	u.must(u.store.DeleteBucket(t.Context(), u.owner, b.BucketRef, u.store.now))
	_, err = other.Run(t.Context(), &b, func(buckets.LifecycleResult) {}, func(string) {})
	u.must(err)
}

// TestSweepStops checks that another process continues a stopped sweep immediately.
func TestSweepStops(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("a", "", 1))
	u.put(b, nil, "a", "b", "c")
	u.store.now += 3 * day
	ctx, stop := context.WithCancel(t.Context())
	u.store.before = func(*buckets.Expired) error {
		stop()
		return ctx.Err()
	}
	if _, err := u.runner().Sweep(ctx, 1); err == nil {
		t.Error("a stopped sweep returns no error")
	}
	if run := u.run(b); run.Began != u.store.now || run.Ended != 0 {
		t.Errorf("%+v", run)
	}
	u.store.before = nil
	u.sweep(u.runner(), 100, 3)
}

func TestClockJumps(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	b := u.bucket("photos", rule("a", "", 1))
	u.put(b, nil, "a")
	r := u.runner()
	u.sweep(r, 100, 0)
	u.store.now, u.jump = u.store.now+365*day, 365*day
	if n, err := r.Sweep(t.Context(), 100); n != 0 || !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("%d, %v", n, err)
	}
	u.want(b, "a")
	u.store.now, u.jump = u.store.now-365*day, 0
	u.sweep(r, 100, 0)
	u.want(b, "a")
}
