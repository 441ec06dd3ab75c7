package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// These tests hold two writers at a lock and release them together. A write that decides
// on data read before the lock was acquired would let both succeed.

const now buckets.Moment = 1_700_000_000_000_000

type lockTest struct {
	*testdb.Locks
	*postgres.Store
	t      *testing.T
	url    string
	owners [2]buckets.AccountID
	bucket buckets.BucketRef // first account
	other  buckets.BucketRef // second account
}

func newLockTest(t *testing.T, conns int) *lockTest {
	t.Helper()
	url := testdb.PostgresDatabase(t)
	s := postgres.New(opened.Postgres(t, pgdb.Options{URL: url, MaxConns: conns}, postgres.Migrations))
	a := &lockTest{Locks: testdb.NewLocks(t, url), Store: s, t: t, url: url} // the cleanup releases the locks first
	for i := range a.owners {
		a.owners[i] = buckets.AccountID(fmt.Sprintf("a0000000-0000-4000-8000-00000000000%d", i))
		a.must(s.CreateAccount(t.Context(), buckets.Account{ID: a.owners[i], Name: fmt.Sprint(i), Created: now}))
	}
	a.bucket, a.other = a.createBucket(0, "photos"), a.createBucket(1, "photos")
	return a
}

func (a *lockTest) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *lockTest) createBucket(owner int, name string) buckets.BucketRef {
	a.t.Helper()
	b, err := a.CreateBucket(a.t.Context(), a.owners[owner], buckets.BucketRef{Name: name, ID: buckets.BucketID(buckets.NewUUID())}, now)
	a.must(err)
	return b.BucketRef
}

func newBody() buckets.Body {
	return buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 10, MD5: make([]byte, 16), Sharks: []string{"a:1"}}
}

func (a *lockTest) put(name string, c buckets.Condition) error {
	return a.putAs(a.t.Context(), 0, a.bucket, name, c)
}

func (a *lockTest) putAs(ctx context.Context, owner int, b buckets.BucketRef, name string, c buckets.Condition) error {
	_, err := a.Put(ctx, a.owners[owner], b, buckets.Put{Object: buckets.Object{Name: name, Body: newBody()}, Condition: c, Now: now})
	return err
}

func (a *lockTest) delete(name string) error {
	_, err := a.Delete(a.t.Context(), a.owners[0], a.bucket, buckets.Delete{Name: name, Now: now})
	return err
}

func (a *lockTest) upload(name string) (id buckets.UploadID, ref buckets.PartRef) {
	a.t.Helper()
	id = buckets.NewUploadID(now)
	a.must(a.CreateUpload(a.t.Context(), a.owners[0], a.bucket, buckets.Upload{ID: id, Name: name, Created: now}))
	a.must(a.PutPart(a.t.Context(), buckets.UploadKey{Owner: a.owners[0], Bucket: a.bucket, Name: name, ID: id}, buckets.Part{Number: 1, Body: newBody(), Created: now}))
	return id, buckets.PartRef{Number: 1, ETag: "00000000000000000000000000000000"}
}

func (a *lockTest) complete(name string, id buckets.UploadID, ref buckets.PartRef) (buckets.Written, error) {
	return a.Complete(a.t.Context(), buckets.UploadKey{Owner: a.owners[0], Bucket: a.bucket, Name: name, ID: id}, buckets.Completion{
		Object: buckets.ObjectID(buckets.NewUUID()), Parts: []buckets.PartRef{ref}, Now: now,
	})
}

// wantRight checks all counters, and that no body has two rows.
func (a *lockTest) wantRight() {
	a.t.Helper()
	for _, owner := range a.owners {
		if wrong, err := a.Audit(a.t.Context(), owner, false); err != nil || len(wrong) > 0 {
			a.t.Errorf("counters: %+v, %v", wrong, err)
		}
	}
	seen := map[buckets.ObjectID]bool{}
	a.must(a.References(a.t.Context(), func(r buckets.Reference) error {
		if seen[r.ID] {
			a.t.Errorf("%s has two rows", r.ID)
		}
		seen[r.ID] = true
		return nil
	}))
}

// holdName and the functions below return statements that take writers' locks.
func (a *lockTest) holdName(name string) string {
	return fmt.Sprintf(`SELECT pg_advisory_xact_lock(hashtextextended('%s', uuid_hash_extended('%s', 1)))`, name, a.bucket.ID)
}

func (a *lockTest) holdBucket() string {
	return fmt.Sprintf(`SELECT pg_advisory_xact_lock(uuid_hash_extended('%s', 0))`, a.bucket.ID)
}

func (a *lockTest) holdUsage() string {
	return fmt.Sprintf(`SELECT 1 FROM manta_bucket_usage WHERE owner = '%s' ORDER BY bucket_id, slot FOR UPDATE`, a.owners[0])
}

func (a *lockTest) holdAccount() string {
	return fmt.Sprintf(`SELECT pg_advisory_xact_lock(uuid_hash_extended('%s', 2))`, a.owners[0])
}

// A single write may succeed.
func TestTwoWaiters(t *testing.T) {
	t.Parallel()
	type race struct {
		hold func(*lockTest) string
		step func(a *lockTest) func(i int) error
		lost []errcode.Code // the failing write's codes
	}
	name := func(a *lockTest) string { return a.holdName("new") }
	quota := func(q buckets.Quota) func(a *lockTest) func(i int) error {
		return func(a *lockTest) func(i int) error {
			a.must(a.SetQuota(t.Context(), a.owners[0], a.bucket, q))
			return func(i int) error { return a.put(fmt.Sprint(i), buckets.Condition{}) }
		}
	}
	for what, c := range map[string]race{
		"create": {name, func(a *lockTest) func(int) error {
			return func(int) error { return a.put("new", buckets.Condition{NoneMatch: buckets.Tags{Any: true}}) }
		}, []errcode.Code{errcode.Precondition}},
		"change": {name, func(a *lockTest) func(int) error {
			a.must(a.put("new", buckets.Condition{}))
			o, err := a.Get(t.Context(), a.owners[0], a.bucket.ID, "new")
			a.must(err)
			return func(int) error {
				return a.put("new", buckets.Condition{Match: buckets.Tags{Tags: []string{string(o.ID)}}})
			}
		}, []errcode.Code{errcode.Precondition}},
		"delete": {name, func(a *lockTest) func(int) error {
			a.must(a.put("new", buckets.Condition{}))
			return func(int) error { return a.delete("new") }
		}, []errcode.Code{errcode.NotFound}},
		"delete a bucket": {(*lockTest).holdBucket, func(a *lockTest) func(int) error {
			return func(int) error { return a.DeleteBucket(t.Context(), a.owners[0], a.bucket, now) }
		}, []errcode.Code{errcode.NotFound}},
		"delete a bucket and put": {(*lockTest).holdBucket, func(a *lockTest) func(int) error {
			return func(i int) error {
				if i == 0 {
					return a.put("new", buckets.Condition{})
				}
				return a.DeleteBucket(t.Context(), a.owners[0], a.bucket, now)
			}
		}, []errcode.Code{errcode.NotFound, errcode.Conflict}},
		"create a bucket": {(*lockTest).holdAccount, func(a *lockTest) func(int) error {
			return func(int) error {
				_, err := a.CreateBucket(t.Context(), a.owners[0], buckets.BucketRef{Name: "new", ID: buckets.BucketID(buckets.NewUUID())}, now)
				return err
			}
		}, []errcode.Code{errcode.Conflict}},
		"create a bucket and delete the account": {(*lockTest).holdAccount, func(a *lockTest) func(int) error {
			a.must(a.DeleteBucket(t.Context(), a.owners[0], a.bucket, now))
			return func(i int) error {
				if i == 0 {
					return a.DeleteAccount(t.Context(), a.owners[0])
				}
				_, err := a.CreateBucket(t.Context(), a.owners[0], buckets.BucketRef{Name: "new", ID: buckets.BucketID(buckets.NewUUID())}, now)
				return err
			}
		}, []errcode.Code{errcode.NotFound, errcode.Conflict}},
		"last object": {(*lockTest).holdUsage, quota(buckets.Quota{Objects: 1}), []errcode.Code{errcode.Quota}},
		"last bytes":  {(*lockTest).holdUsage, quota(buckets.Quota{Bytes: 19}), []errcode.Code{errcode.Quota}},
	} {
		t.Run(what, func(t *testing.T) {
			a := newLockTest(t, 4)
			answers := a.Race(t, c.hold(a), `COMMIT`, c.step(a))
			lost := errors.Join(answers[0], answers[1])
			known := false
			for _, code := range c.lost {
				known = known || errcode.Is(lost, code)
			}
			if (answers[0] == nil) == (answers[1] == nil) || !known {
				t.Errorf("the results are %v and %v; one must be %v", answers[0], answers[1], c.lost)
			}
			a.wantRight()
		})
	}
}

// TestCompleteAndAbort checks that an upload is either completed or aborted, and that two concurrent completions return
// the same object.
func TestCompleteAndAbort(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"abort", "complete"} {
		t.Run(other, func(t *testing.T) {
			a := newLockTest(t, 4)
			id, ref := a.upload("new")
			var written [2]buckets.Written
			answers := a.Race(t, fmt.Sprintf(`SELECT 1 FROM manta_bucket_upload WHERE id = '%s' FOR UPDATE`, id), `COMMIT`, func(i int) (err error) {
				if i == 1 && other == "abort" {
					return a.Abort(t.Context(), buckets.UploadKey{Owner: a.owners[0], Bucket: buckets.BucketRef{ID: a.bucket.ID}, Name: "new", ID: id}, now)
				}
				written[i], err = a.complete("new", id, ref)
				return err
			})
			err := errors.Join(answers[0], answers[1])
			switch {
			case other == "complete" && (err != nil || written[0].Object.ID != written[1].Object.ID):
				t.Errorf("%v and %v are complete: %v", written[0].Object.ID, written[1].Object.ID, err)
			case other == "abort" && ((answers[0] == nil) == (answers[1] == nil) || !errors.Is(err, buckets.ErrNoUpload)):
				t.Errorf("the results are %v; one must be %v", answers, buckets.ErrNoUpload)
			}
			a.wantRight()
		})
	}
}

func TestTwoClaims(t *testing.T) {
	t.Parallel()
	a := newLockTest(t, 4)
	for i := range 10 {
		a.must(a.put(fmt.Sprint(i), buckets.Condition{}))
		a.must(a.delete(fmt.Sprint(i)))
	}
	var claimed [2][]buckets.Garbage
	answers := a.Race(t, `SELECT 1 FROM manta_bucket_hold WHERE id = '' FOR UPDATE`, `COMMIT`, func(i int) (err error) {
		claimed[i], err = a.Claim(t.Context(), buckets.Claim{ID: buckets.NewUUID(), Before: now, Now: now, Expires: now + 1, Limit: 7})
		return err
	})
	ids := map[buckets.ObjectID]bool{}
	for _, g := range append(claimed[0], claimed[1]...) {
		ids[g.ID] = true
	}
	if err := errors.Join(answers[:]...); err != nil || len(ids) != 10 || len(claimed[0])+len(claimed[1]) != 10 {
		t.Errorf("%d and %d rows, %d different: %v", len(claimed[0]), len(claimed[1]), len(ids), err)
	}
}

// TestWaiterIsEnded terminates a writer's connection. The writer must leave nothing and the store must keep working.
func TestWaiterIsEnded(t *testing.T) {
	t.Parallel()
	a := newLockTest(t, 4)
	answers := a.Race(t, a.holdName("new"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`, func(int) error { return a.put("new", buckets.Condition{}) })
	a.Exec(t, `COMMIT`)
	for _, err := range answers {
		if !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("answered %v", err)
		}
	}
	if _, err := a.Get(t.Context(), a.owners[0], a.bucket.ID, "new"); !errors.Is(err, buckets.ErrNoObject) {
		t.Errorf("the object: %v", err)
	}
	if err := a.put("new", buckets.Condition{}); err != nil {
		t.Errorf("the next write: %v", err)
	}
	a.wantRight()
}

// TestOthersDoNotWait holds an account's locks and rows: other accounts can write, and all can read. Then it holds
// one name: other names in the bucket can be written.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	a := newLockTest(t, 4)
	a.must(a.put("there", buckets.Condition{}))
	a.upload("up")
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patient(30*time.Second))
	defer cancel()
	a.Exec(t, `BEGIN`)
	a.Exec(t, a.holdName("there"))
	a.Exec(t, `SELECT 1 FROM manta_bucket_object WHERE name = 'there' FOR UPDATE`)
	a.must(a.putAs(ctx, 0, a.bucket, "another", buckets.Condition{}))
	id, ref := a.upload("parts")
	_, err := a.complete("parts", id, ref)
	a.must(err)

	a.Exec(t, a.holdBucket())
	a.Exec(t, a.holdUsage())
	for _, table := range []string{"manta_bucket", "manta_bucket_object", "manta_bucket_deleted_object", "manta_bucket_upload", "manta_bucket_part", "manta_bucket_settings"} {
		a.Exec(t, `SELECT 1 FROM `+table+` WHERE owner = $1 FOR UPDATE`, string(a.owners[0]))
	}
	a.Exec(t, a.holdAccount())
	if _, err := a.Get(ctx, a.owners[0], a.bucket.ID, "there"); err != nil {
		t.Error(err)
	}
	if page, err := a.List(ctx, a.owners[0], a.bucket.ID, buckets.Query{Limit: 9}); err != nil || len(page.Entries) != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	if u, err := a.Usage(ctx, a.owners[0]); err != nil || u.Total.Objects != 3 {
		t.Errorf("%+v, %v", u, err)
	}
	for range 2 { // a new object and an existing object
		a.must(a.putAs(ctx, 1, a.other, "there", buckets.Condition{}))
	}
	if _, err := a.Delete(ctx, a.owners[1], a.other, buckets.Delete{Name: "there", Now: now}); err != nil {
		t.Error(err)
	}
	upload := buckets.NewUploadID(now)
	for what, err := range map[string]error{
		"SetBucket":    a.SetBucket(ctx, a.owners[1], a.other, buckets.SettingsChange{PublicRead: new(bool)}),
		"SetQuota":     a.SetQuota(ctx, a.owners[1], a.other, buckets.Quota{Objects: 9}),
		"CreateUpload": a.CreateUpload(ctx, a.owners[1], a.other, buckets.Upload{ID: upload, Name: "up", Created: now}),
		"CreateKey":    a.CreateKey(ctx, buckets.Key{ID: "K", Account: a.owners[1], Secret: []byte("s"), Created: now}),
		"DeleteBucket": a.DeleteBucket(ctx, a.owners[1], a.createBucket(1, "second"), now),
		"Hold":         a.Hold(ctx, "h", now, now+1),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.must(a.PutPart(ctx, buckets.UploadKey{Owner: a.owners[1], Bucket: a.other, Name: "up", ID: upload}, buckets.Part{Number: 1, Body: newBody(), Created: now}))
	a.must(a.Abort(ctx, buckets.UploadKey{Owner: a.owners[1], Bucket: buckets.BucketRef{ID: a.other.ID}, Name: "up", ID: upload}, now))
	a.Exec(t, `COMMIT`)
	a.wantRight()
}

// TestNoDeadlock runs 16 writers on two accounts, with a few names in random order, exhausted quotas, and the sweep. A
// deadlock would show as errcode.Unavailable or in the server's deadlock count.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	a := newLockTest(t, 16)
	refs := [2]buckets.BucketRef{a.bucket, a.other}
	for i, owner := range a.owners {
		a.must(a.SetQuota(t.Context(), owner, refs[i], buckets.Quota{Objects: 6}))
		a.must(a.SetQuota(t.Context(), owner, buckets.BucketRef{}, buckets.Quota{Bytes: 100}))
	}
	var wg sync.WaitGroup
	for n := range uint64(16) {
		wg.Go(func() { a.mixed(refs, rand.New(rand.NewPCG(1, n))) })
	}
	wg.Wait()
	a.wantRight()
	db := opened.Postgres(t, pgdb.Options{URL: a.url}, nil)
	var deadlocks int64
	if _, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
		SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`}, nil, &deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

func (a *lockTest) mixed(refs [2]buckets.BucketRef, random *rand.Rand) {
	ctx := a.t.Context()
	for range 40 {
		i := random.IntN(2)
		owner, b, name := a.owners[i], refs[i], fmt.Sprint(random.IntN(8))
		var err error
		switch random.IntN(8) {
		case 0, 1:
			_, err = a.Delete(ctx, owner, b, buckets.Delete{Name: name, Now: now})
		case 2:
			id := buckets.NewUploadID(now)
			err = a.CreateUpload(ctx, owner, b, buckets.Upload{ID: id, Name: name, Created: now})
			for n := 1; n <= 2 && err == nil; n++ {
				err = a.PutPart(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: name, ID: id}, buckets.Part{Number: n, Body: newBody(), Created: now})
			}
			if err == nil {
				_, err = a.Complete(ctx, buckets.UploadKey{Owner: owner, Bucket: b, Name: name, ID: id}, buckets.Completion{
					Object: buckets.ObjectID(buckets.NewUUID()), Parts: []buckets.PartRef{{Number: 1 + random.IntN(2), ETag: "00000000000000000000000000000000"}}, Now: now,
				})
			}
		case 3:
			_, err = a.AbortOld(ctx, now+1, now, 3)
		case 4:
			claim := buckets.NewUUID()
			var all []buckets.Garbage
			if all, err = a.Claim(ctx, buckets.Claim{ID: claim, Before: now, Now: now, Expires: now + 1, Limit: 5}); err == nil {
				_, err = a.Remove(ctx, claim, all)
			}
		default:
			err = a.putAs(ctx, i, b, name, buckets.Condition{})
		}
		if err != nil && !errcode.Is(err, errcode.Quota) && !errcode.Is(err, errcode.NotFound) {
			a.t.Error(err)
		}
	}
}
