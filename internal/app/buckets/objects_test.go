package buckets

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestObjectOperations stores, lists, reads and deletes objects as an operator.
func TestObjectOperations(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	o := newOperator(t, s)
	const objects = "/buckets/objects/main/photos"
	put := func(status int, object, query, body string) string {
		t.Helper()
		return o.Upload(status, objects+"/"+object+"/put"+query, octetStream, body).Text
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %s in %s", part, text)
			}
		}
	}
	contains(put(200, "2026%2Fa.txt", "?metadata=%7B%22Author%22%3A%22Ada%20B.%22%7D", "first\n"), `"object":"2026/a.txt"`, `"bytes":6`, `"etag":"`)
	put(200, "2026%2Fb.bin", "?contentType=image%2Fpng", "b")
	put(200, "c%20d.txt", "", "")
	large := strings.Repeat("0123456789abcdef", 100_000)
	put(200, "large", "", large)

	var list struct {
		Objects []objectOutput
		Next    *string
	}
	read := func(query string) (names string) {
		t.Helper()
		list.Objects, list.Next = nil, nil
		if err := json.Unmarshal([]byte(o.Send(200, "GET", objects+query, "").Text), &list); err != nil {
			t.Fatal(err)
		}
		for _, row := range list.Objects {
			names += row.Object + row.Prefix + " "
		}
		return names
	}
	for query, want := range map[string]string{
		"": "2026/a.txt 2026/b.bin c d.txt k large ", "?delimiter=/": "2026/ c d.txt k large ", "?prefix=2026/&delimiter=/": "2026/a.txt 2026/b.bin ", "?prefix=2026/b": "2026/b.bin ", "?prefix=no": "",
		"?limit=2": "2026/a.txt 2026/b.bin ", "?limit=2&after=2026/b.bin": "c d.txt k ", "?limit=2&after=2026/&delimiter=/": "c d.txt k ",
	} {
		if names := read(query); names != want || (list.Next != nil) != strings.Contains(query, "limit=2") {
			t.Errorf("%s: %s, want %s; next is %v", query, names, want, list.Next)
		}
	}
	read("?metadata=true")
	if a := list.Objects[0]; a.Metadata["author"] != "Ada B." || !strings.HasPrefix(a.Type, "text/plain") || a.Bytes != 6 || a.Modified == nil || list.Objects[1].Type != "image/png" || list.Objects[3].Metadata != nil {
		t.Errorf("%+v", list.Objects)
	}
	etag := list.Objects[0].ETag
	if read(""); list.Objects[0].Metadata != nil {
		t.Error("metadata is listed without being asked for")
	}

	for object, want := range map[string]string{"2026%2Fa.txt": "first", "c%20d.txt": "", "large": large, "k": "a body"} {
		if text := o.Send(200, "GET", objects+"/"+object+"/get", "").Text; text != want {
			t.Errorf("%s has %d bytes, want %d", object, len(text), len(want))
		}
	}

	contains(put(409, "2026%2Fa.txt", "?ifNoneMatch=*", "no"), "condition does not hold")
	contains(put(409, "2026%2Fa.txt", "?ifMatch=b1946ac92492d2347c6235b4d2611184", "no"), "condition does not hold")
	put(404, "missing", "?ifMatch="+etag, "no")
	put(200, "2026%2Fa.txt", "?ifMatch=%22"+etag+"%22", "second\n")
	contains(put(422, "a", "?metadata=%5B%5D", ""), "expected a JSON object")
	contains(put(422, "a", "?metadata=%7B%22a%20b%22%3A%22c%22%7D", ""), "the name of user metadata")
	contains(put(422, "a", "?metadata=%7B%22a%22%3A%22%5Cn%22%7D", ""), "control characters")
	contains(put(422, "a", "?contentType=a%0Ab", ""), "control characters")
	contains(put(422, "a", "?ifMatch=a%20b%22", ""), "expected an ETag")
	contains(put(422, "%00", "", ""), "object")
	contains(o.Upload(404, "/buckets/objects/main/nothing/a/put", octetStream, "x").Text, "nothing")
	o.Send(404, "GET", "/buckets/objects/main/nothing", "")
	o.Send(404, "GET", objects+"/missing/get", "")

	o.Send(409, "POST", objects+"/k/delete", `{"ifMatch":"`+etag+`"}`, "condition does not hold")
	o.Send(200, "POST", objects+"/k/delete", `{"ifMatch":"*"}`, `"retained":[]`)
	o.Send(404, "POST", objects+"/k/delete", "", "the object does not exist")
}

// TestVersionsOfObjectOperations checks that a deletion keeps versions, and that a lock protects them.
func TestVersionsOfObjectOperations(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	o := newOperator(t, s)
	const object = "/buckets/objects/main/photos/k"
	o.Send(200, "POST", "/buckets/buckets/main/photos/set-versioning", `{"versioning":"enabled"}`)
	o.Send(200, "POST", "/buckets/buckets/main/photos/set-lock", `{"mode":"compliance","days":1}`)
	var written putOutput
	if err := json.Unmarshal([]byte(o.Upload(200, object+"/put", octetStream, "second").Text), &written); err != nil || written.Version == "" {
		t.Fatalf("%+v, %v", written, err)
	}
	var deleted deletedObject
	if err := json.Unmarshal([]byte(o.Send(200, "POST", object+"/delete", "").Text), &deleted); err != nil || deleted.Marker == "" || deleted.Marker == written.Version {
		t.Fatalf("%+v, %v", deleted, err)
	}
	if !strings.Contains(deleted.Notice(), "its versions stay") {
		t.Error(deleted.Notice())
	}
	o.Send(404, "GET", object+"/get", "")
	for version, want := range map[string]string{"null": "a body", written.Version: "second"} {
		if text := o.Send(200, "GET", object+"/get?version="+version, "").Text; text != want {
			t.Errorf("version %s: %s", version, text)
		}
	}
	o.Send(404, "GET", object+"/get?version="+deleted.Marker, "")
	o.Send(409, "POST", "/buckets/versions/main/photos/k/"+written.Version+"/delete", `{"bypassGovernance":true}`, "it cannot be deleted")
	if text := o.Send(200, "GET", "/buckets/objects/main/photos", "").Text; !strings.Contains(text, `"objects":[]`) {
		t.Error(text)
	}
}
