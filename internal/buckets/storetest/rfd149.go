package storetest

import (
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

// rfd149Checks look for the defects in RFD 149's SQL statements.
func rfd149Checks() []check {
	return []check{
		{"ContentTypeOnOverwrite", contentTypeOnOverwrite},
		{"CreatorAndProperties", creatorAndProperties},
		{"NoLostGarbage", noLostGarbage},
		{"NoLostGarbageOnDelete", noLostGarbageOnDelete},
		{"OneCreatesIfNoneMatchAny", oneCreates},
		{"OneReplacesIfMatch", oneReplaces},
		{"ListFromLiveObjects", listFromLiveObjects},
		{"ListInByteOrder", listInByteOrder},
		{"PrefixIsNoPattern", prefixIsNoPattern},
		{"NameEqualToSkipMarker", nameEqualToSkipMarker},
		{"InternalNamesAreNames", internalNames},
	}
}

// Defect: the second write stored the MD5 as the content type.
func contentTypeOnOverwrite(t *testing.T, u *user) {
	o := object("a")
	u.putObject(o)
	o.Body, o.ContentType = stored(5), "image/png"
	u.putObject(o)
	equal(t, "content type", u.get("a").ContentType, "image/png")
	equal(t, "MD5", u.get("a").MD5, o.MD5)
}

// Defect: the first write lost both, and the second kept an old creator.
func creatorAndProperties(t *testing.T, u *user) {
	o := full("a")
	for _, creator := range []buckets.AccountID{o.Creator, "", buckets.AccountID(buckets.NewUUID())} {
		o.Creator = creator
		o.Body = stored(10)
		u.putObject(o)
		got := u.get("a")
		equal(t, "creator", got.Creator, creator)
		equal(t, "tags", got.Tags, o.Tags)
		equal(t, "properties", decoded(t, got.Extra), decoded(t, o.Extra))
		listed := u.list(buckets.Query{Limit: 1}).Entries[0].Object
		equal(t, "listed creator", listed.Creator, creator)
		equal(t, "listed tags", listed.Tags, o.Tags)
	}
	u.put("a")
	equal(t, "properties of another object", u.get("a").Properties, buckets.Properties{})
}

func noLostGarbage(t *testing.T, u *user) {
	objects := make([]buckets.Object, parallel)
	for i := range objects {
		objects[i] = object("a")
	}
	errs := testdb.Concurrently(parallel, func(i int) error {
		w, err := u.tryPut(objects[i], buckets.Condition{})
		objects[i] = w.Object
		return err
	})
	equal(t, "writes", suite.Winners(t, errs, is(nil)), parallel)
	live := u.get("a").ID
	var garbage []buckets.ObjectID
	for _, o := range objects {
		if o.ID != live {
			garbage = append(garbage, o.ID)
		}
	}
	u.wantBodies([]buckets.ObjectID{live}, garbage)
	u.wantUsage(1, 10)
}

func noLostGarbageOnDelete(t *testing.T, u *user) {
	objects := make([]buckets.Object, parallel/2)
	for i := range objects {
		objects[i] = object("a")
	}
	testdb.Concurrently(parallel, func(i int) error {
		if i >= len(objects) {
			_, err := u.tryDelete("a", buckets.Condition{})
			if err != nil {
				wantError(t, "Delete", err, buckets.ErrNoObject)
			}
			return err
		}
		_, err := u.tryPut(objects[i], buckets.Condition{})
		wantError(t, "Put", err, nil)
		return err
	})
	var live []buckets.ObjectID
	if o, err := u.tryGet("a"); err == nil {
		live = ids(o)
	}
	var garbage []buckets.ObjectID
	for _, o := range objects {
		if len(live) == 0 || o.ID != live[0] {
			garbage = append(garbage, o.ID)
		}
	}
	u.wantBodies(live, garbage)
	u.wantUsage(int64(len(live)), 10*int64(len(live)))
}

func oneCreates(t *testing.T, u *user) {
	objects := make([]buckets.Object, parallel)
	for i := range objects {
		objects[i] = object("a")
	}
	errs := testdb.Concurrently(parallel, func(i int) error {
		_, err := u.tryPut(objects[i], buckets.Condition{NoneMatch: anyTag})
		return err
	})
	equal(t, "winners", suite.Winners(t, errs, is(buckets.ErrPrecondition)), 1)
	for i, err := range errs {
		if err == nil {
			equal(t, "the object", u.get("a").ID, objects[i].ID)
			u.wantBodies(ids(objects[i]), nil)
		}
	}
	u.wantUsage(1, 10)
}

func oneReplaces(t *testing.T, u *user) {
	first := u.put("a")
	errs := testdb.Concurrently(parallel, func(int) error {
		_, err := u.tryPut(object("a"), buckets.Condition{Match: tags(first.EntityTag())})
		return err
	})
	equal(t, "winners", suite.Winners(t, errs, is(buckets.ErrPrecondition)), 1)
	u.wantBodies(ids(u.get("a")), ids(first))
	u.wantUsage(1, 10)
}

// Defect: deleted objects were listed.
func listFromLiveObjects(t *testing.T, u *user) {
	u.put("deleted")
	u.delete("deleted")
	u.put("live")
	equal(t, "listed", u.listed(buckets.Query{Limit: 10}), []string{"live"})
}

// Defect: the database locale determined the order.
func listInByteOrder(t *testing.T, u *user) {
	names := []string{"_", "-a", "B", "Z", "a", "a b", "a-b", "ab", "b", "z", "ä", "é", "z\u0301", "ﬀ", "\U0001f600", "\uffff", "\ue000"}
	for _, name := range names {
		u.put(name)
	}
	equal(t, "listed", u.listed(buckets.Query{Limit: 3}), sorted(names))
	equal(t, "after Z", u.listed(buckets.Query{Limit: 3, Start: buckets.Position{Name: "Z"}})[0], "_")
}

// Defect: %, _ and \ in a prefix matched other names.
func prefixIsNoPattern(t *testing.T, u *user) {
	names := []string{"a%b", "a%", "a_b", "a_", "axb", `a\b`, `a\`, `a\%`, "ab", "A_", "%", "_", `\`}
	for _, name := range names {
		u.put(name)
	}
	for _, prefix := range []string{"a%", "a_", `a\`, `a\%`, "%", "_", `\`, "a", "A", "a%_", "[a]", "a*", "a?"} {
		var want []string
		for _, name := range sorted(names) {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		equal(t, "names with the prefix "+prefix, u.listed(buckets.Query{Prefix: prefix, Limit: 2}), want)
		equal(t, "groups with the prefix "+prefix, u.listed(buckets.Query{Prefix: prefix, Delimiter: "/", Limit: 2}), want)
	}
}

// Defect: a page lost its first name if the name directly followed a group.
func nameEqualToSkipMarker(t *testing.T, u *user) {
	for _, name := range []string{"a/1", "a/2", "a0", "a0/x", "b\U0010ffff1", "c"} {
		u.put(name)
	}
	for limit := 1; limit < 5; limit++ {
		equal(t, "groups of /", u.listed(buckets.Query{Delimiter: "/", Limit: limit}), []string{"a/", "a0", "a0/", "b\U0010ffff1", "c"})
		equal(t, "groups of U+10FFFF", u.listed(buckets.Query{Delimiter: "\U0010ffff", Limit: limit}), []string{"a/1", "a/2", "a0", "a0/x", "b\U0010ffff", "c"})
	}
	equal(t, "after the group", entryNames(u.list(buckets.Query{Delimiter: "/", Limit: 9}.Starting("a/"))), []string{"a0", "a0/", "b\U0010ffff1", "c"})
}

// Defect: names with an upload in progress were hidden.
func internalNames(t *testing.T, u *user) {
	for _, name := range []string{".mpu-locks/a", ".mpu-parts/a", ".mpu-uploads/a"} {
		u.put(name)
	}
	u.createUpload("up", u.now)
	equal(t, "listed", u.listed(buckets.Query{Limit: 10}), []string{".mpu-locks/a", ".mpu-parts/a", ".mpu-uploads/a"})
	wantError(t, "DeleteBucket", u.h.Store.DeleteBucket(t.Context(), u.owner, u.ref(), u.now), buckets.ErrBucketNotEmpty)
}
