package storetest

import (
	"crypto/md5"
	"errors"
	"slices"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

const (
	second = buckets.Moment(1e6)
	hour   = 3600 * second
	start  = buckets.Moment(1_700_000_000_123_456)
)

const parallel = 100

// user is an account with a bucket. If an operation fails, the test ends, unless the operation's name begins with
// "try".
type user struct {
	t      suite.TB
	h      Harness
	owner  buckets.AccountID
	now    buckets.Moment
	bucket buckets.Bucket
}

func newUser(t suite.TB, h Harness) *user {
	t.Helper()
	u := &user{t: t, h: h, owner: buckets.AccountID(buckets.NewUUID()), now: start}
	must(t, "CreateAccount", h.Accounts.CreateAccount(t.Context(), buckets.Account{ID: u.owner, Name: "u" + string(u.owner), Created: u.now}))
	u.bucket = u.createBucket("bucket")
	return u
}

func (u *user) other() *user { return newUser(u.t, u.h) }

func (u *user) tick() buckets.Moment {
	u.now += second
	return u.now
}

func (u *user) ref() buckets.BucketRef { return u.bucket.BucketRef }

func (u *user) key(name string, id buckets.UploadID) buckets.UploadKey {
	return buckets.UploadKey{Owner: u.owner, Bucket: u.ref(), Name: name, ID: id}
}

func newRef(name string) buckets.BucketRef {
	return buckets.BucketRef{Name: name, ID: buckets.BucketID(buckets.NewUUID())}
}

func (u *user) createBucket(name string) buckets.Bucket {
	u.t.Helper()
	b, err := u.h.Store.CreateBucket(u.t.Context(), u.owner, newRef(name), u.now)
	must(u.t, "CreateBucket", err)
	return b
}

func stored(length int64) buckets.Body {
	id := buckets.NewUUID()
	sum := md5.Sum([]byte(id))
	return buckets.Body{ID: buckets.ObjectID(id), Length: length, MD5: sum[:], Sharks: []string{"east:1.stor", "west:2.stor"}}
}

func inline(text string) buckets.Body {
	sum := md5.Sum([]byte(text))
	return buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: int64(len(text)), MD5: sum[:], Inline: []byte(text)}
}

func object(name string) buckets.Object {
	return buckets.Object{Name: name, ContentType: "text/plain", Body: stored(10)}
}

func (u *user) tryPut(o buckets.Object, c buckets.Condition) (buckets.Written, error) {
	return u.h.Store.Put(u.t.Context(), u.owner, u.ref(), buckets.Put{Object: o, Condition: c, Now: u.now})
}

func (u *user) putObject(o buckets.Object) buckets.Object {
	u.t.Helper()
	w, err := u.tryPut(o, buckets.Condition{})
	must(u.t, "Put", err)
	return w.Object
}

func (u *user) put(name string) buckets.Object {
	u.t.Helper()
	return u.putObject(object(name))
}

func (u *user) tryGet(name string) (buckets.Object, error) {
	return u.h.Store.Get(u.t.Context(), u.owner, u.bucket.ID, name)
}

func (u *user) get(name string) buckets.Object {
	u.t.Helper()
	o, err := u.tryGet(name)
	must(u.t, "Get", err)
	return o
}

func (u *user) wantNone(name string) {
	u.t.Helper()
	_, err := u.tryGet(name)
	wantError(u.t, "Get", err, buckets.ErrNoObject)
}

func (u *user) tryDelete(name string, c buckets.Condition) (buckets.Object, error) {
	done, err := u.h.Store.Delete(u.t.Context(), u.owner, u.ref(), buckets.Delete{Name: name, Condition: c, Now: u.now})
	return done.Object, err
}

func (u *user) delete(name string) buckets.Object {
	u.t.Helper()
	o, err := u.tryDelete(name, buckets.Condition{})
	must(u.t, "Delete", err)
	return o
}

func (u *user) deleteBucket(b buckets.BucketRef) {
	u.t.Helper()
	must(u.t, "DeleteBucket", u.h.Store.DeleteBucket(u.t.Context(), u.owner, b, u.now))
}

func (u *user) list(q buckets.Query) buckets.Page {
	u.t.Helper()
	p, err := u.h.Store.List(u.t.Context(), u.owner, u.bucket.ID, q)
	must(u.t, "List", err)
	return p
}

func (u *user) listed(q buckets.Query) (all []string) {
	u.t.Helper()
	for {
		p := u.list(q)
		if len(p.Entries) > q.Limit || p.More && len(p.Entries) != q.Limit {
			u.t.Fatalf("a page of %d entries, more is %v, the limit is %d", len(p.Entries), p.More, q.Limit)
		}
		all = append(all, entryNames(p)...)
		if !p.More {
			return all
		}
		q.Start = p.Next
	}
}

func entryNames(p buckets.Page) (all []string) {
	for _, e := range p.Entries {
		all = append(all, e.Name())
	}
	return all
}

func (u *user) references() map[buckets.ObjectID]buckets.Reference {
	u.t.Helper()
	all := map[buckets.ObjectID]buckets.Reference{}
	must(u.t, "References", u.h.References.References(u.t.Context(), func(r buckets.Reference) error {
		if r.Owner != u.owner {
			return nil
		}
		if other, twice := all[r.ID]; twice {
			u.t.Errorf("a body has two rows: %+v and %+v", other, r)
		}
		all[r.ID] = r
		return nil
	}))
	return all
}

func (u *user) wantBodies(live, garbage []buckets.ObjectID) {
	u.t.Helper()
	var gotLive, gotGarbage []buckets.ObjectID
	for id, r := range u.references() {
		if r.Garbage {
			gotGarbage = append(gotGarbage, id)
		} else {
			gotLive = append(gotLive, id)
		}
	}
	for _, all := range [][]buckets.ObjectID{live, garbage, gotLive, gotGarbage} {
		slices.Sort(all)
	}
	equal(u.t, "live bodies", gotLive, live)
	equal(u.t, "garbage", gotGarbage, garbage)
}

func ids(all ...buckets.Object) (list []buckets.ObjectID) {
	for i := range all {
		list = append(list, all[i].ID)
	}
	return list
}

func (u *user) usage() buckets.AccountUsage {
	u.t.Helper()
	a, err := u.h.Counters.Usage(u.t.Context(), u.owner)
	must(u.t, "Usage", err)
	return a
}

// wantUsage requires that the account has no other objects.
func (u *user) wantUsage(objects, bytes int64) {
	u.t.Helper()
	want := buckets.Usage{Objects: objects, Bytes: bytes}
	a := u.usage()
	equal(u.t, "usage of the account", a.Total, want)
	for _, b := range a.Buckets {
		if b.Bucket == u.ref() {
			equal(u.t, "usage of the bucket", b.Usage, want)
		}
	}
	u.wantAudit()
}

func (u *user) wantAudit() {
	u.t.Helper()
	wrong, err := u.h.Counters.Audit(u.t.Context(), u.owner, false)
	must(u.t, "Audit", err)
	equal(u.t, "wrong counters", wrong, nil)
}

func wantError(t tb, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
