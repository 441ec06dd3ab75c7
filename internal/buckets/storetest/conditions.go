package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

// These describe the object used by the cases of Condition.
const (
	CaseID       buckets.ObjectID = "6f2a2e8c-5f8e-4d3a-9f0b-0c4b8f6a1d22"
	CaseETag                      = "0cc175b9c0f1b6a831c399e269772661"
	CaseModified                  = start // not a whole second
)

type ConditionCase struct {
	Name      string
	Condition buckets.Condition
	Read      error
	Absent    error // error of a write if there is no object; a refused overwrite returns ErrPrecondition
}

var (
	pre    error = buckets.ErrPrecondition
	not    error = buckets.ErrNotModified
	absent error = buckets.ErrNoObject

	anyTag = buckets.Tags{Any: true}
)

func tags(all ...string) buckets.Tags { return buckets.Tags{Tags: all} }

func ConditionCases() []ConditionCase {
	const (
		whole  = CaseModified / second * second // as in clients that send Last-Modified back
		before = whole - second
		later  = whole + second
	)
	etag, id, no := tags(CaseETag), tags(string(CaseID)), tags("f00")
	type c = buckets.Condition
	return []ConditionCase{
		{"none", c{}, nil, nil},
		{"match the entity tag", c{Match: etag}, nil, absent},
		{"match the ID", c{Match: id}, nil, absent},
		{"match one of two", c{Match: tags("f00", CaseETag)}, nil, absent},
		{"match another", c{Match: no}, pre, absent},
		{"match a prefix", c{Match: tags(CaseETag[:31])}, pre, absent},
		{"match any", c{Match: anyTag}, nil, pre},
		{"none match any", c{NoneMatch: anyTag}, not, nil},
		{"none match the entity tag", c{NoneMatch: etag}, not, absent},
		{"none match the ID", c{NoneMatch: id}, not, absent},
		{"none match one of two", c{NoneMatch: tags("f00", CaseETag)}, not, absent},
		{"none match another", c{NoneMatch: no}, nil, absent},
		{"modified since the second before", c{ModifiedSince: before}, nil, absent},
		{"modified since Last-Modified", c{ModifiedSince: whole}, not, absent},
		{"modified since the moment", c{ModifiedSince: CaseModified}, not, absent},
		{"modified since later", c{ModifiedSince: later}, not, absent},
		{"unmodified since the second before", c{UnmodifiedSince: before}, pre, absent},
		{"unmodified since Last-Modified", c{UnmodifiedSince: whole}, nil, absent},
		{"unmodified since the moment", c{UnmodifiedSince: CaseModified}, nil, absent},
		{"unmodified since later", c{UnmodifiedSince: later}, nil, absent},
		{"match replaces unmodified since", c{Match: etag, UnmodifiedSince: before}, nil, absent},
		{"match another, unmodified since later", c{Match: no, UnmodifiedSince: later}, pre, absent},
		{"none match replaces modified since", c{NoneMatch: no, ModifiedSince: later}, nil, absent},
		{"none match the entity tag, modified since before", c{NoneMatch: etag, ModifiedSince: before}, not, absent},
		{"match and none match the entity tag", c{Match: etag, NoneMatch: etag}, not, absent},
		{"match another before none match", c{Match: no, NoneMatch: etag}, pre, absent},
		{"match the entity tag, none match any", c{Match: etag, NoneMatch: anyTag}, not, nil},
		{"match any, none match any", c{Match: anyTag, NoneMatch: anyTag}, not, pre},
		{"match any, none match another", c{Match: anyTag, NoneMatch: no}, nil, pre},
		{"unmodified since later, modified since before", c{UnmodifiedSince: later, ModifiedSince: before}, nil, absent},
		{"unmodified since before, none match another", c{UnmodifiedSince: before, NoneMatch: no}, pre, absent},
	}
}

func CaseObject() buckets.Object {
	b := inline("a")
	b.ID = CaseID
	return buckets.Object{Name: "a", Created: CaseModified, Modified: CaseModified, ContentType: "text/plain", Body: b}
}

func (c *ConditionCase) Write() error {
	if c.Read == nil {
		return nil
	}
	return buckets.ErrPrecondition
}

func conditionChecks() []check {
	var all []check
	for _, c := range ConditionCases() {
		all = append(all, check{c.Name, func(t *testing.T, u *user) { conditionCase(t, u, &c) }})
	}
	return append(all,
		check{"of a multipart object", multipartCondition},
		check{"delete an unchanged object", deleteUnchanged},
		check{"delete an unchanged object that changes", deleteWhileChanged},
	)
}

func conditionCase(t *testing.T, u *user, c *ConditionCase) {
	text := "text/html"
	calls := map[string]func() error{
		"Put": func() error {
			_, err := u.tryPut(object("a"), c.Condition)
			return err
		},
		"Update": func() error {
			_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", ContentType: &text, Condition: c.Condition, Now: u.now})
			return err
		},
		"Delete": func() error {
			_, err := u.tryDelete("a", c.Condition)
			return err
		},
		"Complete": func() error {
			id := u.createUpload("a", u.now)
			ref := u.putPart("a", id, part(1, 10, u.now))
			_, err := u.tryComplete("a", id, []buckets.PartRef{ref}, c.Condition)
			if err != nil {
				must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key("a", id), u.now))
			}
			return err
		},
	}
	for name, call := range calls {
		u.now = CaseModified
		before := u.putObject(CaseObject())
		u.tick()
		wantError(t, name+" of an object", call(), c.Write())
		if c.Write() != nil {
			equal(t, name+" that was refused", u.get("a"), before)
		}
		if _, err := u.tryDelete("a", buckets.Condition{}); err != nil && !errors.Is(err, buckets.ErrNoObject) {
			t.Fatal(err)
		}
		want := c.Absent
		if want == nil && (name == "Update" || name == "Delete") {
			want = buckets.ErrNoObject
		}
		wantError(t, name+" of none", call(), want)
		if want != nil {
			u.wantNone("a")
		} else {
			u.delete("a")
		}
	}
	u.wantUsage(0, 0)
}

func multipartCondition(t *testing.T, u *user) {
	id := u.createUpload("a", u.now)
	o := u.complete("a", id, u.putPart("a", id, part(1, 10, u.now)))
	_, err := u.tryDelete("a", buckets.Condition{Match: tags(o.ETag[:32])})
	wantError(t, "without the number of parts", err, buckets.ErrPrecondition)
	_, err = u.tryDelete("a", buckets.Condition{Match: tags("")})
	wantError(t, "an empty tag", err, buckets.ErrPrecondition)
	_, err = u.tryDelete("a", buckets.Condition{Match: tags(o.ETag)})
	must(t, "Delete", err)
}

func metadataChanges() map[string]buckets.Update {
	kind, none := "text/html", json.RawMessage("null")
	class := buckets.StorageClass("STANDARD_IA")
	return map[string]buckets.Update{
		"content type": {ContentType: &kind}, "headers": {Headers: map[string]string{"m-a": "2"}}, "roles": {Roles: &[]string{buckets.NewUUID()}},
		"tags": {Tags: &map[string]string{"a": "2"}}, "no tags": {Tags: &map[string]string{}}, "no properties": {Extra: &none}, "storage class": {Class: &class},
	}
}

func fullObject(name string) buckets.Object {
	o := object(name)
	o.Headers, o.Roles = map[string]string{"m-a": "1", "cache-control": "no-store"}, []string{buckets.NewUUID()}
	o.Tags, o.Extra = map[string]string{"a": "1"}, json.RawMessage(`{"x":{"y":[1]}}`)
	return o
}

func deleteUnchanged(t *testing.T, u *user) {
	remove := func(was buckets.Object, c buckets.Condition) error {
		_, err := u.h.Store.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: was.Name, Condition: c, Now: u.now, Unchanged: &was})
		return err
	}
	for name, change := range metadataChanges() {
		u.putObject(fullObject("a"))
		was := u.get("a")
		change.Name, change.Now = "a", u.now
		_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), change)
		must(t, "Update", err)
		changed := u.get("a")
		wantError(t, "after a change of the "+name, remove(was, buckets.Condition{}), buckets.ErrPrecondition)
		equal(t, "the object", u.get("a"), changed)
		wantError(t, "another condition that does not hold", remove(changed, buckets.Condition{NoneMatch: anyTag}), buckets.ErrPrecondition)
		must(t, "Delete", remove(changed, buckets.Condition{}))
		u.wantUsage(0, 0)
		u.wantNone("a")
		wantError(t, "again", remove(changed, buckets.Condition{}), buckets.ErrNoObject)
	}
	was := u.putObject(fullObject("a"))
	u.putObject(fullObject("a"))
	wantError(t, "after another write", remove(was, buckets.Condition{}), buckets.ErrPrecondition)
	gone := u.ref()
	gone.ID = buckets.BucketID(buckets.NewUUID())
	_, err := u.h.Store.Delete(t.Context(), u.owner, gone, buckets.Delete{Name: "a", Now: u.now, Unchanged: &was})
	wantError(t, "of another bucket", err, buckets.ErrNoBucket)
}

func deleteWhileChanged(t *testing.T, u *user) {
	for range 20 {
		was := u.putObject(fullObject("a"))
		errs := testdb.Concurrently(2, func(i int) (err error) {
			if i == 0 {
				_, err = u.h.Store.Delete(t.Context(), u.owner, u.ref(), buckets.Delete{Name: "a", Now: u.now, Unchanged: &was})
				return err
			}
			_, err = u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Tags: &map[string]string{"a": "2"}, Now: u.now})
			return err
		})
		switch {
		case errs[0] == nil && errors.Is(errs[1], buckets.ErrNoObject):
			u.wantNone("a")
		case errors.Is(errs[0], buckets.ErrPrecondition) && errs[1] == nil:
			equal(t, "tag", u.get("a").Tags["a"], "2")
		default:
			t.Errorf("deletion: %v, change: %v", errs[0], errs[1])
		}
	}
}
