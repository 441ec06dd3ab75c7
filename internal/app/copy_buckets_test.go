package app_test

import (
	"crypto/md5"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	bucketspg "holdfast/internal/buckets/postgres"
	bucketssqlite "holdfast/internal/buckets/sqlite"
	bucketstest "holdfast/internal/buckets/storetest"
	"holdfast/internal/copying"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func bucketsHarness(t testing.TB, url string) bucketstest.Harness {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		s := bucketssqlite.New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil))
		return bucketstest.Harness{Store: s, Uploads: s, Collector: s, References: s, Counters: s, Accounts: s, Nodes: s, Leases: s, Damages: s, Scrubs: s}
	}
	s := bucketspg.New(opened.Postgres(t, pgdb.Options{URL: url}, nil))
	return bucketstest.Harness{Store: s, Uploads: s, Collector: s, References: s, Counters: s, Accounts: s, Nodes: s, Leases: s, Damages: s, Scrubs: s}
}

type bucketsUser struct {
	t     *testing.T
	h     bucketstest.Harness
	owner buckets.AccountID
	ref   buckets.BucketRef
	n     int
	now   buckets.Moment

	live   map[string]buckets.ObjectID
	stored map[buckets.ObjectID]bool
	freed  map[buckets.ObjectID]bool
}

func newBucketsUser(t *testing.T, h bucketstest.Harness) *bucketsUser {
	t.Helper()
	u := &bucketsUser{
		t: t, h: h, owner: buckets.AccountID(buckets.NewUUID()), now: 1_700_000_000_000_000,
		ref:  buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())},
		live: map[string]buckets.ObjectID{}, stored: map[buckets.ObjectID]bool{}, freed: map[buckets.ObjectID]bool{},
	}
	err := h.Accounts.CreateAccount(t.Context(), buckets.Account{ID: u.owner, Name: "main", Created: u.now, Quota: buckets.Quota{Objects: 1000}})
	if err == nil {
		_, err = h.Store.CreateBucket(t.Context(), u.owner, u.ref, u.now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *bucketsUser) body() buckets.Body {
	id := buckets.NewUUID()
	sum := md5.Sum([]byte(id))
	return buckets.Body{ID: buckets.ObjectID(id), Length: 10, MD5: sum[:], Sharks: []string{"east:1"}}
}

func (u *bucketsUser) work(n int) error {
	for range n {
		u.n++
		u.now += 1e6
		name := fmt.Sprint("k", u.n%7)
		var err error
		switch {
		case u.n%6 == 5:
			err = u.collect()
		case u.n%4 == 3:
			err = u.delete(name)
		case u.n%5 == 2:
			err = u.upload(name)
		default:
			err = u.put(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *bucketsUser) put(name string) error {
	o := buckets.Object{Name: name, ContentType: "text/plain", Headers: map[string]string{"m-a": "\"ü\\\n", "b": ""}, Roles: []string{buckets.NewUUID()}, Body: u.body()}
	_, err := u.h.Store.Put(u.t.Context(), u.owner, u.ref, buckets.Put{Object: o, Now: u.now})
	if err == nil {
		u.live[name], u.stored[o.ID] = o.ID, true
	}
	return err
}

func (u *bucketsUser) delete(name string) error {
	_, err := u.h.Store.Delete(u.t.Context(), u.owner, u.ref, buckets.Delete{Name: name, Now: u.now})
	if err == nil {
		delete(u.live, name)
	}
	if errors.Is(err, buckets.ErrNoObject) {
		return nil
	}
	return err
}

// upload completes an upload of two parts, and leaves another upload incomplete.
func (u *bucketsUser) upload(name string) error {
	ctx := u.t.Context()
	for _, isComplete := range []bool{false, true} {
		id := buckets.UploadID(buckets.NewUUID())
		if err := u.h.Uploads.CreateUpload(ctx, u.owner, u.ref, buckets.Upload{ID: id, Name: name, Created: u.now}); err != nil {
			return err
		}
		var list []buckets.PartRef
		for n := range 2 {
			p := buckets.Part{Number: n + 1, Created: u.now, Body: u.body()}
			if err := u.h.Uploads.PutPart(ctx, buckets.UploadKey{Owner: u.owner, Bucket: u.ref, Name: name, ID: id}, p); err != nil {
				return err
			}
			u.stored[p.ID] = true
			list = append(list, buckets.PartRef{Number: n + 1, ETag: fmt.Sprintf("%x", p.MD5)})
		}
		if !isComplete {
			continue
		}
		object := buckets.ObjectID(buckets.NewUUID())
		if _, err := u.h.Uploads.Complete(ctx, buckets.UploadKey{Owner: u.owner, Bucket: u.ref, Name: name, ID: id}, buckets.Completion{Object: object, Parts: list, Now: u.now}); err != nil {
			return err
		}
		u.live[name] = object
	}
	return nil
}

// collect removes some garbage from the nodes, and then from the database.
func (u *bucketsUser) collect() error {
	ctx := u.t.Context()
	claim := buckets.Claim{ID: buckets.NewUUID(), Before: u.now, Now: u.now, Expires: u.now + 60e6, Limit: 2}
	all, err := u.h.Collector.Claim(ctx, claim)
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Upload == "" {
			u.freed[g.ID] = true
			continue
		}
		parts, err := u.h.Collector.UploadBodies(ctx, u.owner, g.Upload, 0, 10)
		if err != nil {
			return err
		}
		for i := range parts {
			u.freed[parts[i].ID] = true
		}
	}
	_, err = u.h.Collector.Remove(ctx, claim.ID, all)
	return err
}

// check checks that rows reference all remaining bodies and no removed bodies.
func (u *bucketsUser) check() {
	u.t.Helper()
	ctx := u.t.Context()
	for i := range 7 {
		name := fmt.Sprint("k", i)
		o, err := u.h.Store.Get(ctx, u.owner, u.ref.ID, name)
		if want := u.live[name]; want == "" && !errors.Is(err, buckets.ErrNoObject) || want != "" && (err != nil || o.ID != want) {
			u.t.Errorf("%s is %s, %v; want %s", name, o.ID, err, want)
		}
	}
	has := map[buckets.ObjectID]bool{}
	if err := u.h.References.References(ctx, func(r buckets.Reference) error {
		has[r.ID] = true
		if u.freed[r.ID] {
			u.t.Errorf("%s has the body %s, which was removed (garbage: %v)", r.Name, r.ID, r.Garbage)
		}
		return nil
	}); err != nil {
		u.t.Error(err)
	}
	for id := range u.stored {
		if !has[id] && !u.freed[id] {
			u.t.Errorf("no row has the body %s", id)
		}
	}
	if wrong, err := u.h.Counters.Audit(ctx, u.owner, false); err != nil || len(wrong) > 0 {
		u.t.Errorf("usage: %v, %v", wrong, err)
	}
}

// TestCopyBuckets interrupts a copy at each step while a bucket is used. Bodies are not copied, so the target must
// reference exactly the remaining bodies.
func TestCopyBuckets(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string]struct{ from, to func(testing.TB) string }{
		"sqlite to postgres": {sqliteURL, testdb.PostgresDatabase},
		"postgres to sqlite": {testdb.PostgresDatabase, sqliteURL},
		"sqlite to citus":    {sqliteURL, testdb.CitusDatabase},
		"citus to sqlite":    {testdb.CitusDatabase, sqliteURL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := pair.from(t), pair.to(t)
			c := newCopy(t, "buckets", source, target)
			u := newBucketsUser(t, bucketsHarness(t, source))
			if err := u.work(40); err != nil {
				t.Fatal(err)
			}
			copyWithCrashes(t, c, func() {
				if err := u.work(5); err != nil && !errcode.Is(err, errcode.Unavailable) {
					t.Error(err)
				}
			})
			wantEqual(t, c)
			if err := errors.Join(u.put("refused"), u.collect()); !errcode.Is(err, errcode.Unavailable) {
				t.Errorf("the source accepts writes: %v", err)
			}
			if _, err := u.h.Leases.Lease(t.Context(), buckets.Lease{Name: "maintenance", Holder: "a", Left: 30e9}); !errcode.Is(err, errcode.Unavailable) {
				t.Errorf("an audit of the source: %v", err)
			}
			u.check()
			u.h = bucketsHarness(t, target)
			u.check()
			if err := u.work(100); err != nil {
				t.Fatal(err)
			}
			u.check()
		})
	}
}

// copyWithCrashes runs a copy that stops after each step, and calls use before each step.
func copyWithCrashes(t *testing.T, c *copying.Copy, use func()) {
	t.Helper()
	for steps := 0; ; steps++ {
		left := steps
		c.BeforeStep = func(string) error {
			use()
			if left--; left < 0 {
				return errCrash
			}
			return nil
		}
		err := c.Run(t.Context())
		if err == nil {
			c.BeforeStep = nil
			return
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	}
}
