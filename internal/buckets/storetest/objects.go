package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
	"holdfast/internal/testdb"
)

func objectChecks() []check {
	return []check{
		{"Values", objectValues},
		{"Names", objectNames},
		{"Bodies", objectBodies},
		{"frames", objectFrames},
		{"frames that are set later", setFrames},
		{"Find", findObject},
		{"Overwrite", overwrite},
		{"imported objects", importObjects},
		{"Update", updateObject},
		{"UpdateNothing", updateNothing},
		{"Delete", deleteObject},
		{"DeleteAll", deleteAll},
		{"DeleteAll of many", deleteMany},
		{"DeleteAll against writes", deleteAllRace},
		{"NoBucket", noBucket},
		{"BucketByName", bucketByName},
		{"Isolation", isolation},
		{"NoAccountID", noAccountID},
	}
}

func full(name string) buckets.Object {
	return buckets.Object{
		Name: name, Creator: "5b3e8f6e-0d5e-4c56-8a7e-2f4d1c9b8a70", ContentType: `text/plain; charset="utf-8"`,
		Headers: map[string]string{"m-ключ": "значение \"'\\%_\u2028\U0001f600", "cache-control": "no-store", "m-control": "\x01\x1f\x7f\t", "m-empty": ""},
		Roles:   []string{"0f9f1e04-52a1-4c3e-9d3e-0a3c6a5a9f10", "f0f1e04a-52a1-4c3e-9d3e-0a3c6a5a9f11"},
		Body:    stored(1 << 40),
		Properties: buckets.Properties{
			Checksum: buckets.Checksum{Algorithm: "CRC32", Value: "AAAAAA=="},
			Tags:     map[string]string{"тег": "'; --"},
			Class:    "GLACIER_IR",
			Extra:    json.RawMessage(`{"a":[1,2.50,12345678901234567890],"ü":"\u0001\"","z":null}`),
		},
	}
}

func wantObject(t tb, what string, got, want buckets.Object) {
	t.Helper()
	gotExtra, wantExtra := got.Extra, want.Extra
	got.Extra, want.Extra = nil, nil
	equal(t, what, got, want)
	if (gotExtra == nil) != (wantExtra == nil) {
		t.Errorf("%s: the properties are %s, want %s", what, gotExtra, wantExtra)
		return
	}
	if wantExtra != nil {
		equal(t, what+": properties", decoded(t, gotExtra), decoded(t, wantExtra))
	}
}

func decoded(t tb, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
	return v
}

func objectValues(t *testing.T, u *user) {
	for name, o := range map[string]buckets.Object{
		"full":     full("full"),
		"bare":     {Name: "bare", Body: stored(1)},
		"no MD5":   {Name: "no MD5", Body: buckets.Body{ID: stored(1).ID, Length: 1, Sharks: []string{"a:b"}}},
		"one copy": {Name: "one copy", Body: buckets.Body{ID: stored(1).ID, Length: 1, MD5: make([]byte, 16), Sharks: []string{"a:b.c_d-e"}}},
	} {
		w, err := u.tryPut(o, buckets.Condition{})
		must(t, "Put", err)
		o.Created, o.Modified = u.now, u.now
		wantObject(t, name+": written", w.Object, o)
		equal(t, name+": replaced", w.Replaced, false)
		wantObject(t, name+": read", u.get(name), o)
	}
}

func importObjects(t *testing.T, u *user) {
	imported := func(at buckets.Moment) buckets.Object {
		o := full("a")
		o.Body, o.ETag, o.Imported = stored(10), "00112233445566778899aabbccddeeff-2", at
		return o
	}
	for _, at := range []buckets.Moment{u.now - 365*24*hour, u.now + hour, u.now} {
		o := imported(at)
		w, err := u.tryPut(o, buckets.Condition{})
		must(t, "Put", err)
		o.Created, o.Modified = u.now, at
		wantObject(t, "written", w.Object, o)
		wantObject(t, "read", u.get("a"), o)
		listed := u.list(buckets.Query{Limit: 1}).Entries[0].Object
		equal(t, "listed", []any{listed.Imported, listed.Modified, listed.EntityTag()}, []any{at, at, o.ETag})
		u.tick()
	}
	_, err := u.tryPut(imported(1), buckets.Condition{NoneMatch: buckets.Tags{Any: true}})
	wantError(t, "Put with a condition", err, buckets.ErrPrecondition)
	equal(t, "usage", u.usage().Total, buckets.Usage{Objects: 1, Bytes: 10})

	o, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Touch: true, Now: u.tick()})
	must(t, "Update", err)
	equal(t, "modified by a client", []buckets.Moment{o.Modified, o.Imported}, []buckets.Moment{u.now, start})
	equal(t, "overwritten by a client", u.put("a").Imported, 0)
}

func hostileNames() []string {
	names := []string{
		"a", "A", "á", "a\u0301", "日本語", "\U0010ffff", "\U0001f600", "\uffff", "\ue000", "\ud7ff",
		"..", "../..", ".", "//", "/", "a//b", "%2e%2e", "%", "_", `\`, `\%`, "a%", "a_", `a\`, "a*", "a?", "'", `"`, "';--", "?1", "$1",
		" ", "  ", " a", "a ", "\t", "\n", "\r\n", "\x01", "\x1f", "\x7f", "\u0080", "\u2028", "+", "a+b", "null", "NULL", "1", "1.0", "01", "0x1",
		strings.Repeat("a", buckets.MaxObjectName), strings.Repeat("é", buckets.MaxObjectName/2), strings.Repeat("\U0010ffff", buckets.MaxObjectName/4),
	}
	for c := byte(1); c < 0x80; c++ {
		names = append(names, "c"+string(rune(c)))
	}
	return names
}

func objectNames(t *testing.T, u *user) {
	made := map[string]buckets.ObjectID{}
	for _, name := range hostileNames() {
		if err := buckets.CheckObjectName(name); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		made[name] = u.put(name).ID
	}
	for name, id := range made {
		equal(t, "the object "+name, u.get(name).ID, id)
	}
	equal(t, "listed", u.listed(buckets.Query{Limit: 7}), sorted(hostileNames()))
	for _, name := range hostileNames() {
		equal(t, "deleted", u.delete(name).ID, made[name])
		delete(made, name)
	}
	equal(t, "listed afterwards", u.listed(buckets.Query{Limit: 7}), nil)
}

func objectBodies(t *testing.T, u *user) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, text := range map[string]string{
		"every byte": string(all), "zero": "\x00", "64 KiB": strings.Repeat(string(all), 256), "invalid UTF-8": "\xff\xfe", "1 byte": "a",
	} {
		o := u.putObject(buckets.Object{Name: name, Body: inline(text)})
		equal(t, "the body "+name, u.get(name), o)
	}
	u.putObject(buckets.Object{Name: "empty", Body: inline("")})
	got := u.get("empty")
	equal(t, "length of an empty body", got.Length+int64(len(got.Inline)+len(got.Sharks)), 0)
	u.wantBodies(nil, nil)
}

func findObject(t *testing.T, u *user) {
	must(t, "SetBucket", u.h.Store.SetBucket(t.Context(), u.owner, u.ref(), publicRead))
	bucket, err := u.h.Store.Bucket(t.Context(), u.owner, u.bucket.Name)
	must(t, "Bucket", err)
	other := u.createBucket("other")
	body := stored(10)
	body.Frames = optional.Some(buckets.Frames{ID: 7, CRC64NVME: 8})
	for _, o := range []buckets.Object{full("full"), {Name: "inline", Body: inline("abc")}, {Name: "stored", Body: body}} {
		u.putObject(o)
		b, got, err := u.h.Store.Find(t.Context(), u.owner, u.bucket.Name, o.Name)
		must(t, "Find", err)
		equal(t, "bucket", b, bucket)
		equal(t, "object", got, u.get(o.Name))
		b, _, err = u.h.Store.Find(t.Context(), u.owner, "other", o.Name)
		wantError(t, "in another bucket", err, buckets.ErrNoObject)
		equal(t, "the other bucket", b, other)
		_, _, err = u.h.Store.Find(t.Context(), u.other().owner, "other", o.Name)
		wantError(t, "in a bucket of another account", err, buckets.ErrNoBucket)
	}
	_, _, err = u.h.Store.Find(t.Context(), "", u.bucket.Name, "full")
	wantError(t, "without an account", err, buckets.ErrNoAccountID)
}

func objectFrames(t *testing.T, u *user) {
	for _, f := range []buckets.Frames{{}, {ID: 1, CRC64NVME: 1<<63 - 1}, {ID: 1 << 63, CRC64NVME: 1}, {ID: 1<<64 - 1, CRC64NVME: 1<<64 - 1}} {
		body := stored(10)
		body.Frames = optional.Some(f)
		u.putObject(buckets.Object{Name: "a", Body: body})
		equal(t, "body", u.get("a").Body, body)
		equal(t, "body of the reference", u.reference("a").Body, body)
		_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", Headers: map[string]string{"m-a": "b"}, Now: u.now})
		must(t, "Update", err)
		equal(t, "body of the updated object", u.get("a").Body, body)
	}
	for _, body := range []buckets.Body{stored(10), inline("abc")} {
		u.putObject(buckets.Object{Name: "a", Body: body})
		equal(t, "body without frames", u.get("a").Body, body)
	}
}

func setFrames(t *testing.T, u *user) {
	id := u.createUpload("parts", u.now)
	one := u.putPart("parts", id, part(1, 10, u.now))
	u.putObject(buckets.Object{Name: "a", Body: stored(10)})
	u.putObject(buckets.Object{Name: "inline", Body: inline("abc")})
	first, second := buckets.Frames{ID: 1 << 63, CRC64NVME: 1<<64 - 1}, buckets.Frames{ID: 2, CRC64NVME: 3}
	set := func(what string, r buckets.Reference, f buckets.Frames, want bool) {
		t.Helper()
		got, err := u.h.References.SetFrames(t.Context(), r, f)
		must(t, "SetFrames", err)
		equal(t, what, got, want)
	}
	for _, name := range []string{"a", "parts"} {
		r := u.reference(name)
		another := r
		another.ID = buckets.ObjectID(buckets.NewUUID())
		set("frames of another body", another, first, false)
		set("frames", r, first, true)
		set("frames again", r, second, false)
		equal(t, "frames of the reference", u.reference(name).Frames, optional.Some(first))
	}
	equal(t, "frames of the object", u.get("a").Frames, optional.Some(first))
	u.complete("parts", id, one)
	segments, err := u.h.Store.Segments(t.Context(), u.owner, id, 0, 1)
	must(t, "Segments", err)
	equal(t, "frames of the part", segments[0].Frames, optional.Some(first))
	inRow := buckets.Reference{Owner: u.owner, Bucket: u.bucket.ID, Name: "inline", Body: u.get("inline").Body}
	set("frames of a body in a row", inRow, first, false)
	r := u.reference("a")
	r.Garbage = true
	u.delete("a")
	set("frames of garbage", r, second, false)
	_, err = u.h.References.SetFrames(t.Context(), buckets.Reference{}, first)
	wantError(t, "without an account", err, buckets.ErrNoAccountID)
}

func overwrite(t *testing.T, u *user) {
	first := u.putObject(full("a"))
	u.tick()
	second, err := u.tryPut(buckets.Object{Name: "a", Body: inline("abc")}, buckets.Condition{})
	must(t, "Put", err)
	equal(t, "replaced", second.Replaced, true)
	wantObject(t, "the second", u.get("a"), buckets.Object{Name: "a", Created: u.now, Modified: u.now, Body: second.Object.Body})
	u.wantBodies(nil, ids(first))
	u.wantUsage(1, 3)
	u.tick()
	third := full("a")
	third.Body = stored(20)
	third = u.putObject(third)
	wantObject(t, "the third", u.get("a"), third)
	u.wantBodies(ids(third), ids(first))
	u.wantUsage(1, 20)
}

func updateObject(t *testing.T, u *user) {
	want := full("a")
	want.Body = inline("abc")
	want = u.putObject(want)
	update := func(what string, up buckets.Update) {
		t.Helper()
		up.Name, up.Now = "a", u.tick()
		want = up.Apply(want)
		got, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), up)
		must(t, "Update", err)
		got.Inline = want.Inline
		wantObject(t, what+": returned", got, want)
		wantObject(t, what+": read", u.get("a"), want)
	}
	text, empty, roles, none := "text/html", "", []string{"0f9f1e04-52a1-4c3e-9d3e-0a3c6a5a9f19"}, []string(nil)
	tagged, untagged := map[string]string{"a": "b"}, map[string]string(nil)
	extra, null := json.RawMessage(`{"b":true}`), json.RawMessage(`null`)
	update("content type", buckets.Update{ContentType: &text, Touch: true})
	update("headers", buckets.Update{Headers: map[string]string{"m-a": "b"}})
	update("roles", buckets.Update{Roles: &roles})
	update("tags", buckets.Update{Tags: &tagged})
	update("properties", buckets.Update{Extra: &extra, Touch: true})
	equal(t, "modified", want.Modified, u.now)
	update("no content type", buckets.Update{ContentType: &empty})
	update("no roles", buckets.Update{Roles: &none})
	update("no properties", buckets.Update{Extra: &null})
	update("no tags", buckets.Update{Tags: &untagged})
	equal(t, "properties", want.Extra, nil)
	equal(t, "created", want.Created, start)
	u.wantUsage(1, 3)
}

func updateNothing(t *testing.T, u *user) {
	text := "text/html"
	_, err := u.h.Store.Update(t.Context(), u.owner, u.ref(), buckets.Update{Name: "a", ContentType: &text, Touch: true, Now: u.now})
	wantError(t, "Update", err, buckets.ErrNoObject)
	u.wantNone("a")
}

func deleteObject(t *testing.T, u *user) {
	_, err := u.tryDelete("a", buckets.Condition{})
	wantError(t, "of none", err, buckets.ErrNoObject)
	a, b := u.putObject(full("a")), u.put("b")
	got := u.delete("a")
	wantObject(t, "deleted", got, a)
	u.wantNone("a")
	_, err = u.tryDelete("a", buckets.Condition{})
	wantError(t, "again", err, buckets.ErrNoObject)
	equal(t, "the other", u.get("b").ID, b.ID)
	u.wantBodies(ids(b), ids(a))
	u.wantUsage(1, 10)
}

func (u *user) tryDeleteAll(all ...buckets.Deletion) []error {
	u.t.Helper()
	done, err := u.h.Store.DeleteAll(u.t.Context(), u.owner, u.ref(), buckets.Deletions{All: all, Now: u.now})
	must(u.t, "DeleteAll", err)
	equal(u.t, "results", len(done), len(all))
	errs := make([]error, len(all))
	for i := range done {
		errs[i] = done[i].Err
	}
	return errs
}

func deleteAll(t *testing.T, u *user) {
	a, b, c, d := u.putObject(full("a")), u.put("b"), u.put("c"), u.put("é")
	cases := []struct {
		buckets.Deletion
		want error
	}{
		{buckets.Deletion{Name: "é", ETag: "*"}, nil},
		{buckets.Deletion{Name: "none"}, buckets.ErrNoObject},
		{buckets.Deletion{Name: "b", ETag: "0"}, buckets.ErrPrecondition},
		{buckets.Deletion{Name: "a", ETag: string(a.ID)}, nil},
		{buckets.Deletion{Name: "0", ETag: "*"}, buckets.ErrPrecondition},
		{buckets.Deletion{Name: "z", ETag: "0"}, buckets.ErrNoObject},
		{buckets.Deletion{Name: "c", ETag: c.EntityTag()}, nil},
	}
	all := make([]buckets.Deletion, len(cases))
	for i := range cases {
		all[i] = cases[i].Deletion
	}
	for i, err := range u.tryDeleteAll(all...) {
		wantError(t, all[i].Name, err, cases[i].want)
	}
	u.wantBodies(ids(b), ids(a, c, d))
	u.wantUsage(1, 10)

	u.tick()
	twice := u.tryDeleteAll(buckets.Deletion{Name: "b"}, buckets.Deletion{Name: "b"}, buckets.Deletion{Name: "b"})
	deleted := 0
	for _, err := range twice {
		if err == nil {
			deleted++
		} else {
			wantError(t, "a name that occurs again", err, buckets.ErrNoObject)
		}
	}
	equal(t, "deletions of one object", deleted, 1)
	u.wantBodies(nil, ids(a, b, c, d))
	u.wantUsage(0, 0)
	none := u.tryDeleteAll()
	equal(t, "errors of none", len(none), 0)
}

func deleteMany(t *testing.T, u *user) {
	const n = 1000
	all, objects := make([]buckets.Deletion, n), make([]buckets.Object, n)
	for i := range all {
		all[i].Name = fmt.Sprintf("o%d", (i*379)%n)
		if objects[i] = object(all[i].Name); i%100 == 0 {
			u.putObject(objects[i])
		}
	}
	for i, err := range u.tryDeleteAll(all...) {
		var want error
		if i%100 > 0 {
			want = buckets.ErrNoObject
		}
		wantError(t, all[i].Name, err, want)
	}
	u.wantUsage(0, 0)
}

func deleteAllRace(t *testing.T, u *user) {
	names := []string{"a", "b", "c"}
	objects := make([]buckets.Object, parallel)
	for i := range objects {
		objects[i] = object(names[i%len(names)])
	}
	testdb.Concurrently(parallel, func(i int) error {
		_, err := u.tryPut(objects[i], buckets.Condition{})
		wantError(t, "Put", err, nil)
		if i%4 == 0 {
			all := []buckets.Deletion{{Name: names[i%3]}, {Name: names[(i+1)%3]}, {Name: names[(i+2)%3]}}
			for _, err := range u.tryDeleteAll(all...) {
				if err != nil {
					wantError(t, "DeleteAll", err, buckets.ErrNoObject)
				}
			}
		}
		return err
	})
	var live, garbage []buckets.ObjectID
	for _, name := range names {
		if o, err := u.tryGet(name); err == nil {
			live = append(live, o.ID)
		}
	}
	for _, o := range objects {
		if !slices.Contains(live, o.ID) {
			garbage = append(garbage, o.ID)
		}
	}
	u.wantBodies(live, garbage)
	u.wantUsage(int64(len(live)), 10*int64(len(live)))
}

func noBucket(t *testing.T, u *user) {
	u.createBucket("other")
	for _, ref := range []buckets.BucketRef{newRef("none"), newRef("bucket"), {Name: "other", ID: u.bucket.ID}} {
		for name, call := range u.writesTo(ref, buckets.NewUploadID(u.now)) {
			wantError(t, name, call(), buckets.ErrNoBucket)
		}
	}
	u.wantBodies(nil, nil)
	u.wantUsage(0, 0)
}

func bucketByName(t *testing.T, u *user) {
	name := buckets.BucketRef{Name: u.bucket.Name}
	put := func(what string, b buckets.BucketRef, want error) buckets.Object {
		t.Helper()
		w, err := u.h.Store.Put(t.Context(), u.owner, b, buckets.Put{Object: buckets.Object{Name: "a", Body: inline("12345")}, Now: u.now})
		wantError(t, what, err, want)
		return w.Object
	}
	remove := func(what string, b buckets.BucketRef, want error) {
		t.Helper()
		_, err := u.h.Store.Delete(t.Context(), u.owner, b, buckets.Delete{Name: "a", Now: u.now})
		wantError(t, what, err, want)
	}
	remove("no object", name, buckets.ErrNoObject)
	put("new", name, nil)
	o := put("again", name, nil)
	wantObject(t, "Get", u.get("a"), o)
	u.wantUsage(1, 5)
	_, err := u.h.Store.Put(t.Context(), u.owner, name, buckets.Put{Object: buckets.Object{Name: "a", Body: inline("")}, Condition: buckets.Condition{NoneMatch: anyTag}, Now: u.now})
	wantError(t, "a condition", err, buckets.ErrPrecondition)
	u.setQuota(u.ref(), buckets.Quota{Bytes: 4})
	if _, err = u.h.Store.Put(t.Context(), u.owner, name, buckets.Put{Object: buckets.Object{Name: "b", Body: inline("12345")}, Now: u.now}); !errcode.Is(err, errcode.Quota) {
		t.Errorf("above the quota: %v", err)
	}
	put("another name", buckets.BucketRef{Name: "none"}, buckets.ErrNoBucket)
	remove("another name", buckets.BucketRef{Name: "none"}, buckets.ErrNoBucket)
	thief := u.other()
	thief.deleteBucket(thief.ref())
	_, err = thief.h.Store.Delete(t.Context(), thief.owner, name, buckets.Delete{Name: "a", Now: u.now})
	wantError(t, "another account", err, buckets.ErrNoBucket)
	remove("the object", name, nil)
	u.wantNone("a")
	u.wantUsage(0, 0)

	u.deleteBucket(u.ref())
	put("a deleted bucket", name, buckets.ErrNoBucket)
	u.bucket = u.createBucket(name.Name)
	o = put("a bucket that was created again", name, nil)
	wantObject(t, "Get", u.get("a"), o)
	u.wantUsage(1, 5)
}

func isolation(t *testing.T, u *user) {
	o := u.put("a")
	id := u.createUpload("up", u.now)
	ref := u.putPart("up", id, part(1, 10, u.now))
	u.putObject(buckets.Object{Name: "empty", Body: inline("")})
	before := u.everything()

	thief := u.other()
	for name, call := range thief.writesTo(u.ref(), id) {
		wantError(t, name, call(), buckets.ErrNoBucket)
	}
	own := thief.bucket
	thief.bucket = u.bucket
	_, err := thief.tryGet("a")
	wantError(t, "Get", err, buckets.ErrNoObject)
	equal(t, "List", thief.listed(buckets.Query{Limit: 10}), nil)
	_, err = thief.h.Uploads.Upload(t.Context(), buckets.UploadKey{Owner: thief.owner, Bucket: buckets.BucketRef{ID: u.bucket.ID}, Name: "up", ID: id})
	wantError(t, "Upload", err, buckets.ErrNoUpload)
	_, _, err = thief.h.Uploads.Parts(t.Context(), buckets.UploadKey{Owner: thief.owner, Bucket: buckets.BucketRef{ID: u.bucket.ID}, Name: "up", ID: id}, 0, 10)
	wantError(t, "Parts", err, buckets.ErrNoUpload)
	wantError(t, "Abort", thief.h.Uploads.Abort(t.Context(), buckets.UploadKey{Owner: thief.owner, Bucket: buckets.BucketRef{ID: u.bucket.ID}, Name: "up", ID: id}, u.now), buckets.ErrNoUpload)
	page, err := thief.h.Uploads.ListUploads(t.Context(), thief.owner, u.bucket.ID, buckets.UploadQuery{Limit: 10})
	must(t, "ListUploads", err)
	equal(t, "uploads", page, buckets.UploadPage{})
	segments, err := thief.h.Store.Segments(t.Context(), thief.owner, id, 0, 10)
	must(t, "Segments", err)
	equal(t, "segments", segments, nil)
	bodies, err := thief.h.Collector.UploadBodies(t.Context(), thief.owner, id, 0, 10)
	must(t, "UploadBodies", err)
	equal(t, "bodies", bodies, nil)
	for _, r := range u.references() {
		r.Owner = thief.owner
		moved, err := thief.h.References.SetSharks(t.Context(), r, []string{"evil:1"})
		must(t, "SetSharks", err)
		equal(t, "moved", moved, false)
	}

	// The thief's own objects have these names, and even the same upload ID.
	thief.bucket = own
	thief.put("a")
	thief.delete("a")
	must(t, "CreateUpload", thief.h.Uploads.CreateUpload(t.Context(), thief.owner, own.BucketRef, buckets.Upload{ID: id, Name: "up", Created: u.now}))
	thief.putPart("up", id, part(1, 7, u.now))
	must(t, "Abort", thief.h.Uploads.Abort(t.Context(), buckets.UploadKey{Owner: thief.owner, Bucket: buckets.BucketRef{ID: own.ID}, Name: "up", ID: id}, u.now))
	thief.deleteBucket(own.BucketRef)
	equal(t, "the account", u.everything(), before)
	u.complete("up", id, ref)
	equal(t, "the object", u.get("a").ID, o.ID)
	u.wantAudit()
}

func noAccountID(t *testing.T, u *user) {
	id := buckets.NewUploadID(u.now)
	for _, owner := range []buckets.AccountID{"", "00000000-0000-0000-0000-000000000000", buckets.AccountID(strings.ToUpper(string(u.owner))), u.owner + " "} {
		bad := *u
		bad.owner = owner
		calls := bad.writesTo(u.ref(), id)
		maps.Copy(calls, bad.accountCalls(id))
		for name, call := range calls {
			wantError(t, name, call(), buckets.ErrNoAccountID)
		}
	}
}

func (u *user) accountCalls(id buckets.UploadID) map[string]func() error {
	ctx, s, up := u.t.Context(), u.h.Store, u.h.Uploads
	return map[string]func() error{
		"CreateBucket": func() error { _, err := s.CreateBucket(ctx, u.owner, newRef("new"), u.now); return err },
		"Bucket":       func() error { _, err := s.Bucket(ctx, u.owner, "bucket"); return err },
		"Buckets":      func() error { _, _, err := s.Buckets(ctx, u.owner, buckets.BucketQuery{Limit: 1}); return err },
		"Get":          func() error { _, err := u.tryGet("a"); return err },
		"List":         func() error { _, err := s.List(ctx, u.owner, u.bucket.ID, buckets.Query{Limit: 1}); return err },
		"Segments":     func() error { _, err := s.Segments(ctx, u.owner, id, 0, 1); return err },
		"Upload":       func() error { _, err := up.Upload(ctx, u.key("up", id)); return err },
		"Parts":        func() error { _, _, err := up.Parts(ctx, u.key("up", id), 0, 1); return err },
		"Abort":        func() error { return up.Abort(ctx, u.key("up", id), u.now) },
		"ListUploads": func() error {
			_, err := up.ListUploads(ctx, u.owner, u.bucket.ID, buckets.UploadQuery{Limit: 1})
			return err
		},
		"UploadBodies": func() error { _, err := u.h.Collector.UploadBodies(ctx, u.owner, id, 0, 1); return err },
		"SetSharks": func() error {
			_, err := u.h.References.SetSharks(ctx, buckets.Reference{Owner: u.owner}, nil)
			return err
		},
		"Usage":            func() error { _, err := u.h.Counters.Usage(ctx, u.owner); return err },
		"Totals":           func() error { _, err := u.h.Counters.Totals(ctx, []buckets.AccountID{u.owner}); return err },
		"SetQuota account": func() error { return u.h.Counters.SetQuota(ctx, u.owner, buckets.BucketRef{}, buckets.Quota{}) },
		"Audit":            func() error { _, err := u.h.Counters.Audit(ctx, u.owner, true); return err },
		"CreateAccount":    func() error { return u.h.Accounts.CreateAccount(ctx, buckets.Account{ID: u.owner, Name: "new"}) },
		"DeleteAccount":    func() error { return u.h.Accounts.DeleteAccount(ctx, u.owner) },
		"CreateKey":        func() error { return u.h.Accounts.CreateKey(ctx, buckets.Key{ID: "new", Account: u.owner}) },
		"Keys":             func() error { _, err := u.h.Accounts.Keys(ctx, u.owner, "", 1); return err },
	}
}
