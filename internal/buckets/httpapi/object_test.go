package httpapi_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
)

const role = "f2a3f4a0-6dd6-4d9d-8a3e-3a0d1e1f7b22"

func TestBuckets(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const list = "/buckets/v1/accounts/main/buckets"
	for _, name := range []string{"b-1", "b-2", "c-1"} {
		s.do("PUT", list+"/"+name, "").is(201)
	}
	s.do("PUT", list+"/b-1", "").fails(409, "BucketAlreadyExists")
	var b struct{ ID, Name, Owner string }
	s.do("GET", list+"/b-1", "").is(200).into(&b)
	if b.Name != "b-1" || b.Owner != string(s.main.ID) || len(b.ID) != 36 {
		t.Errorf("%+v", b)
	}
	s.do("HEAD", list+"/b-1", "").is(200)
	s.do("HEAD", list+"/b-9", "").is(404)
	for query, want := range map[string][]string{
		"": {"b-1", "b-2", "c-1"}, "?prefix=b": {"b-1", "b-2"}, "?marker=b-1": {"b-2", "c-1"}, "?prefix=b&marker=b-1": {"b-2"}, "?limit=2": {"b-1", "b-2"}, "?prefix=z": nil,
	} {
		names, next := s.do("GET", list+query, "").names()
		if !slices.Equal(names, want) || (next != nil) != (query == "?limit=2") {
			t.Errorf("%s: %v, %v; want %v", query, names, next, want)
		}
	}
	s.do("PUT", list+"/b-1/objects/k", "x").is(201)
	s.do("DELETE", list+"/b-1", "").fails(409, "BucketNotEmpty")
	s.do("DELETE", list+"/b-1/objects/k", "").is(204)
	s.do("DELETE", list+"/b-1", "").is(204)
	s.do("DELETE", list+"/b-1", "").fails(404, "BucketNotFound")
	s.do("GET", list+"/b-1", "").fails(404, "BucketNotFound")
	for _, bad := range []string{"B-1", "ab", "a..b", "192.168.5.4", "%00%00%00", "%ff%ff%ff", "-ab", "%2e%2e%2e"} {
		s.do("PUT", list+"/"+bad, "").fails(422, "InvalidBucketName")
		s.do("GET", list+"/"+bad, "").fails(404, "BucketNotFound")
	}
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testPutAndGet)
}

func testPutAndGet(t *testing.T, s *server) {
	sum := checksum.Sum(checksum.CRC32C, []byte(hello)).String()
	a := s.do("PUT", objects+"a", hello, "Content-Type: text/plain", "m-Camera: Böx", "Cache-Control: max-age=60", "Surrogate-Key: k", "Access-Control-Max-Age: 5", "X-Other: no",
		"Object-Roles: "+strings.ToUpper(role)+", "+role, `Object-Properties: {"b": 1.0, "a": "ü"}`, "Durability-Level: 2", "Content-MD5: "+md5Of(hello), "Object-Checksum: crc32c "+sum)
	o := a.is(201).object()
	if o.Name != "a" || o.Owner != string(s.main.ID) || o.ContentLength != int64(len(hello)) || base64.StdEncoding.EncodeToString(o.ContentMD5) != md5Of(hello) ||
		o.ContentType != "text/plain" || !slices.Equal(o.Roles, []string{role}) || string(o.Properties) != `{"a":"ü","b":1}` || !o.Created.Equal(s.clock.Now()) || !o.Modified.Equal(o.Created) {
		t.Errorf("%+v", o)
	}
	if want := map[string]string{"m-camera": "Böx", "cache-control": "max-age=60", "surrogate-key": "k", "access-control-max-age": "5"}; !reflect.DeepEqual(o.Headers, want) {
		t.Errorf("headers are %v, want %v", o.Headers, want)
	}
	if o.Checksum == nil || o.Checksum.Algorithm != "CRC32C" || o.Checksum.Value != sum || o.Checksum.Composite {
		t.Errorf("checksum: %+v", o.Checksum)
	}
	nodes := fmt.Sprint(o.Sharks)
	if nodes != "[{home 1} {home 2}]" && nodes != "[{home 2} {home 1}]" {
		t.Errorf("sharks: %v", nodes)
	}
	tag := `"` + o.ID + `"`
	a.has("ETag: "+tag, "Last-Modified: "+s.clock.Now().UTC().Format(http.TimeFormat))
	for _, method := range []string{"GET", "HEAD"} {
		body := map[string]string{"GET": hello}[method]
		s.do(method, objects+"a", "").is(200).says(body).has("ETag: "+tag, "Content-Type: text/plain", "m-camera: Böx", "Cache-Control: max-age=60", "Surrogate-Key: k", "Access-Control-Max-Age: 5",
			"Durability-Level: 2", "Object-Roles: "+role, "Object-Checksum: CRC32C "+sum, "Content-MD5: "+md5Of(hello), "Content-Length: "+fmt.Sprint(len(hello)), "X-Other:")
	}
	if got := s.do("GET", metadata+"a", "").is(200).object(); !reflect.DeepEqual(got, o) {
		t.Errorf("metadata: %+v, want %+v", got, o)
	}
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	// The next version inherits nothing.
	s.clock.Advance(time.Minute)
	b := s.do("PUT", objects+"a", "small").is(200).object()
	if b.ID == o.ID || len(b.Headers)+len(b.Roles)+len(b.Sharks) > 0 || string(b.Properties) != "{}" || b.ContentType != "application/octet-stream" || b.Checksum != nil || !b.Created.Equal(s.clock.Now()) {
		t.Errorf("%+v", b)
	}
	s.do("GET", objects+"a", "").is(200).says("small").has("Cache-Control: private, no-cache", "Durability-Level:", "Object-Sharks:", "Object-Roles:")
	s.do("PUT", objects+"a", "").is(200)
	s.do("GET", objects+"a", "").is(200).says("").has("Content-Length: 0")
	s.do("DELETE", objects+"a", "").is(204)
	s.do("DELETE", objects+"a", "").fails(404, "ObjectNotFound")
	for _, target := range []string{objects, metadata} {
		s.do("GET", target+"a", "").fails(404, "ObjectNotFound")
	}
	s.do("HEAD", objects+"a", "").is(404)
	s.do("PATCH", metadata+"a", "{}").fails(404, "ObjectNotFound")
}

func TestStreams(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	for _, body := range []string{"x", hello, string(large)} {
		r := s.request("PUT", objects+"k", struct{ *strings.Reader }{strings.NewReader(body)})
		if r.ContentLength = -1; s.send(s.client, r).object().ContentLength != int64(len(body)) {
			t.Errorf("the length of a body of %d bytes is wrong", len(body))
		}
		s.do("GET", objects+"k", "").is(200).says(body)
	}
	s.do("GET", objects+"k", "", "Range: bytes=1048570-2097160").is(206).says(string(large[1048570:2097161]))
}

func TestRanges(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	o := s.put("k", "0123456789")
	for header, want := range map[string]string{
		"bytes=2-4": "234", "bytes=8-": "89", "bytes=-3": "789", "bytes=0-99": "0123456789", "bytes=-99": "0123456789", "bytes=9-9": "9",
	} {
		at := strings.Index("0123456789", want)
		s.do("GET", objects+"k", "", "Range: "+header).is(206).says(want).has("Content-MD5:", fmt.Sprintf("Content-Range: bytes %d-%d/10", at, at+len(want)-1))
		s.do("HEAD", objects+"k", "", "Range: "+header).is(206).has(fmt.Sprint("Content-Length: ", len(want)))
	}
	for _, header := range []string{"bytes=1-0", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=--1", "bytes=+1-2"} {
		s.do("GET", objects+"k", "", "Range: "+header).is(200).says("0123456789").has("Content-Range:")
	}
	for _, header := range []string{"bytes=10-", "bytes=-0", "bytes=99999999999999999999-"} {
		s.do("GET", objects+"k", "", "Range: "+header).fails(416, "InvalidRange").has("Content-Range: bytes */10")
	}
	modified := o.Modified.Format(http.TimeFormat)
	for ifRange, status := range map[string]int{
		`"` + o.ID + `"`: 206, `"other"`: 200, modified: 206, o.Modified.Add(time.Second).Format(http.TimeFormat): 200, "soon": 200,
	} {
		s.do("GET", objects+"k", "", "Range: bytes=1-2", "If-Range: "+ifRange).is(status)
	}
}

// Dates are compared in seconds although times have microseconds. The entity tag is the object's ID.
func TestConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.clock.Advance(123456 * time.Microsecond)
	o := s.put("k", hello)
	tag, md5Tag, other := `"`+o.ID+`"`, `"`+o.EntityTag+`"`, `"`+buckets.NewUUID()+`"`
	now := o.Modified.Format(http.TimeFormat)
	before, after := o.Modified.Add(-time.Second).Format(http.TimeFormat), o.Modified.Add(time.Second).Format(http.TimeFormat)
	for _, c := range []struct {
		headers      string
		read, write  int
		absent, none int // status of PUT, and of DELETE or PATCH, for a missing object
	}{
		{"", 200, 200, 201, 404},
		{"If-Match: " + tag, 200, 200, 404, 404},
		{"If-Match: " + o.ID, 200, 200, 404, 404}, // without quotes
		{"If-Match: W/" + tag, 200, 200, 404, 404},
		{"If-Match: " + other + ", " + tag, 200, 200, 404, 404},
		{"If-Match: " + md5Tag, 200, 200, 404, 404},
		{"If-Match: " + other, 412, 412, 404, 404},
		{"If-Match: *", 200, 200, 412, 412},
		{"If-None-Match: *", 304, 412, 201, 404},
		{"If-None-Match: " + tag, 304, 412, 404, 404},
		{"If-None-Match: " + other, 200, 200, 404, 404},
		{"If-Unmodified-Since: " + now, 200, 200, 404, 404},
		{"If-Unmodified-Since: " + after, 200, 200, 404, 404},
		{"If-Unmodified-Since: " + before, 412, 412, 404, 404},
		{"If-Modified-Since: " + now, 304, 412, 404, 404},
		{"If-Modified-Since: " + before, 200, 200, 404, 404},
		{"If-Modified-Since: " + o.Modified.Format(time.RFC3339Nano), 304, 412, 404, 404},
		{"If-Match: " + tag + "\nIf-Unmodified-Since: " + before, 200, 200, 404, 404},
		{"If-None-Match: " + other + "\nIf-Modified-Since: " + now, 200, 200, 404, 404},
		{"If-Match: " + other + "\nIf-None-Match: " + tag, 412, 412, 404, 404},
		{"If-Match: " + tag + "\nIf-None-Match: " + tag, 304, 412, 404, 404},
	} {
		headers := strings.Split(c.headers, "\n")
		if c.headers == "" {
			headers = nil
		}
		check := func(method, target, body string, want int) {
			t.Helper()
			a := s.do(method, target, body, headers...)
			if a.status != want {
				t.Errorf("%s with %q: %d, want %d\n%s", a.what, c.headers, a.status, want, a.body)
			}
			if a.status == 304 {
				a.has("ETag: " + tag)
			}
		}
		check("GET", objects+"k", "", c.read)
		check("HEAD", objects+"k", "", c.read)
		check("PATCH", metadata+"absent", "{}", c.none)
		check("DELETE", objects+"absent", "", c.none)
		check("PUT", objects+"absent", hello, c.absent)
		if c.absent == 201 {
			s.do("DELETE", objects+"absent", "").is(204)
		}
		if c.write == 412 {
			check("PUT", objects+"k", hello, 412)
			check("PATCH", metadata+"k", "{}", 412)
			check("DELETE", objects+"k", "", 412)
			continue
		}
		check("PATCH", metadata+"k", `{"content_type":"text/plain"}`, 200)
	}
	s.do("PUT", objects+"k", "new", "If-Match: "+tag).is(200)
	s.do("PUT", objects+"k", "newer", "If-Match: "+tag).fails(412, "PreconditionFailedError")
	s.do("DELETE", objects+"k", "", "If-Match: "+tag).fails(412, "PreconditionFailedError")
	s.do("DELETE", objects+"k", "", "If-Match: *").is(204)
}

func TestMalformedConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, name := range []string{"If-Modified-Since", "If-Unmodified-Since"} {
		for _, bad := range []string{"yesterday", "0", "Thu, 01 Jan 1969 00:00:00 GMT"} {
			s.do("PUT", objects+"dated", hello).is(201)
			s.do("GET", objects+"dated", "", name+": "+bad).is(200) // as HTTP requires
			s.do("DELETE", objects+"dated", "").is(204)
			s.do("DELETE", objects+"k", "", name+": "+bad).fails(400, "InvalidArgument")
		}
	}
	s.do("PUT", objects+"k", hello, "If-Match: "+strings.Repeat("a,", 101)).fails(400, "InvalidArgument")
	for _, method := range []string{"PUT", "DELETE", "PATCH", "GET", "HEAD"} {
		target, body := objects+"k", ""
		if method == "PATCH" {
			target, body = metadata+"k", "{}"
		}
		for _, bad := range []string{"", " ", ",", `"a`, `a"`, `"`, "a b", `"a" "b"`, "W/", `*, "a"`, "*, *"} {
			for _, name := range []string{"If-Match", "If-None-Match"} {
				if a := s.do(method, target, body, name+": "+bad); a.status != 400 {
					t.Errorf("%s with %s: %q: %d", method, name, bad, a.status)
				}
			}
		}
	}
}

// TestUnappliedConditions checks that a condition which would be ignored is refused.
func TestUnappliedConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/buckets/v1/accounts/main/buckets/more", "", "If-None-Match: *").fails(400, "InvalidArgument")
	s.do("DELETE", photos, "", "If-Match: *").fails(400, "InvalidArgument")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testUpdate)
}

func testUpdate(t *testing.T, s *server) {
	o := s.put("k", hello, "m-a: 1", "m-b: 2", "Content-Type: text/plain", `Object-Properties: {"x":1}`, "Object-Roles: "+role)
	s.clock.Advance(time.Minute)
	u := s.do("PATCH", metadata+"k", `{"headers": {"m-c": "3", "content-language": "de"}}`).is(200).object()
	if u.ID != o.ID || !u.Created.Equal(o.Created) || !u.Modified.Equal(s.clock.Now()) || u.ContentType != "text/plain" || string(u.Properties) != `{"x":1}` || !slices.Equal(u.Roles, []string{role}) ||
		!reflect.DeepEqual(u.Headers, map[string]string{"m-c": "3", "content-language": "de"}) || !reflect.DeepEqual(u.Sharks, o.Sharks) {
		t.Errorf("%+v", u)
	}
	u = s.do("PATCH", metadata+"k", `{"content_type": "image/png", "roles": [], "properties": {}, "headers": {}}`).is(200).object()
	if u.ContentType != "image/png" || len(u.Roles)+len(u.Headers) > 0 || string(u.Properties) != "{}" {
		t.Errorf("%+v", u)
	}
	if got := s.do("GET", metadata+"k", "").is(200).object(); !reflect.DeepEqual(got, u) {
		t.Errorf("%+v, want %+v", got, u)
	}
	s.do("GET", objects+"k", "").is(200).says(hello).has("Content-Type: image/png", "m-c:")
	for _, bad := range []string{
		" ", "null", "[]", "{", `{"a":1}`, `{"Headers":{}}`, `{"headers":null}`, `{"headers":{"m-a":null}}`, `{"headers":{"m-a":1}}`, `{"headers":{"M-a":"1"}}`, `{"headers":{"etag":"1"}}`, `{"headers":{"set-cookie":"1"}}`,
		`{"headers":{"m-a":"a\r\nb: c"}}`, `{"headers":{"m-a b":"c"}}`, `{"headers":{"m-":"` + strings.Repeat("a", 4096) + `"}}`, `{"roles":null}`, `{"roles":["x"]}`, `{"roles":[1]}`, `{"properties":[]}`, `{"properties":{"s3":{}}}`,
		`{"properties":{"a":"\u0000"}}`, `{"properties":{"a":1,"a":2}}`, `{"properties":{"a":"` + strings.Repeat("a", 8192) + `"}}`, `{"properties":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		`{"content_type":null}`, `{"content_type":""}`, `{"content_type":"a\nb"}`, `{"content_type":"a"} {}`, "{\"content_type\":\"\xff\"}",
	} {
		s.do("PATCH", metadata+"k", bad).fails(400, "InvalidArgument")
	}
	s.do("PATCH", metadata+"k", strings.Repeat(" ", 25<<10)).fails(413, "MaxContentLength")
	s.do("PATCH", metadata+"k", "{}", "Content-Type: text/plain").fails(415, "UnsupportedMediaType")
	if got := s.do("GET", metadata+"k", "").object(); !reflect.DeepEqual(got, u) {
		t.Errorf("changed by a refused update: %+v", got)
	}
	long := strings.Repeat("a", 4096)
	if got := s.do("PATCH", metadata+"k", `{"content_type":"`+long+`"}`).is(200).object(); got.ContentType != long {
		t.Errorf("content type of %d bytes, want 4096", len(got.ContentType))
	}
	s.do("PATCH", metadata+"k", `{"content_type":"`+long+`a"}`).fails(400, "InvalidArgument")
}

func TestListObjects(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testListObjects)
}

func testListObjects(t *testing.T, s *server) {
	for _, name := range []string{"a", "b%2Fc", "b/d", "b/e/f", "b0", "%25", "_", "b%5C"} {
		s.put(name, "x")
	}
	all := func(query string) (names []string) {
		t.Helper()
		marker := ""
		for range 20 {
			page, next := s.do("GET", photos+"/objects?"+query+marker, "").names()
			if names = append(names, page...); next == nil {
				return names
			}
			marker = "&marker=" + strings.NewReplacer("%", "%25", "/", "%2F", `\`, "%5C").Replace(*next)
		}
		t.Fatalf("%s does not end: %v", query, names)
		return nil
	}
	for query, want := range map[string]string{
		"": `% _ a b/c b/d b/e/f b0 b\`, "delimiter=/": `% _ a b/ b0 b\`, "prefix=b/&delimiter=/": "b/c b/d b/e/", "prefix=%25": "%", "prefix=_": "_", "prefix=b%5C": `b\`, "delimiter=e/": `% _ a b/c b/d b/e/ b0 b\`, "prefix=z": "",
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=2", "&limit=1024"} {
			if got := strings.Join(all(query+limit), " "); got != want {
				t.Errorf("%s%s: %s, want %s", query, limit, got, want)
			}
		}
	}
	if names, _ := s.do("GET", photos+"/objects?marker=b/d", "").names(); strings.Join(names, " ") != `b/e/f b0 b\` {
		t.Errorf("after b/d: %v", names)
	}
	for _, bad := range []string{"0", "1025", "-1", "x", "", "1e3"} {
		s.do("GET", photos+"/objects?limit="+bad, "").fails(400, "LimitConstraintError")
		s.do("GET", "/buckets/v1/accounts/main/buckets?limit="+bad, "").fails(400, "LimitConstraintError")
	}
	for _, bad := range []string{"prefix=%ff", "marker=%00", "delimiter=%ff", "prefix=a&prefix=b", "max-keys=1", "a;b", "%zz"} {
		s.do("GET", photos+"/objects?"+bad, "").fails(400, "InvalidArgument")
	}
}

func TestMetadataOfLists(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testMetadataOfLists)
}

func testMetadataOfLists(t *testing.T, s *server) {
	want := s.put("a/1", hello, "Content-Type: text/plain", "m-camera: Böx", "Cache-Control: no-store", "Object-Roles: "+role, `Object-Properties: {"b":1}`)
	plain := s.put("b", "small")
	s.put("c/1", hello)
	page := func(query string, status int) (items []record, next *string) {
		t.Helper()
		var p struct {
			Items []record
			Next  *string `json:"next_marker"`
		}
		s.do("GET", photos+"/objects"+query, "").is(status).into(&p)
		return p.Items, p.Next
	}
	same := func(what string, got, want record) {
		t.Helper()
		got.Type, want.Owner = "", ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	items, next := page("?metadata=true&delimiter=/&prefix=a/", 200)
	if len(items) != 1 || next != nil {
		t.Fatalf("%+v", items)
	}
	same("listed", items[0], want)
	items, next = page("?metadata=true&delimiter=/&limit=2", 200)
	if len(items) != 2 || items[0].Type != "group" || next == nil || *next != "b" {
		t.Fatalf("%+v, %v", items, next)
	}
	same("listed after a group", items[1], plain)
	if items, _ = page("?metadata=false", 200); len(items) != 3 || items[0].Headers != nil || items[0].Properties != nil || items[0].Creator != "" {
		t.Errorf("without metadata: %+v", items)
	}
	for _, bad := range []string{"?metadata=yes", "?metadata=true&limit=101", "?metadata=true&limit=0"} {
		s.do("GET", photos+"/objects"+bad, "").is(400)
	}

	s.do("DELETE", objects+"a/1", "").is(204)
	s.clock.Advance(grace + time.Second)
	gc := s.as(s.other, true)
	b := gc.do("POST", batches, "").is(201).batch()
	if len(b.Garbage) != 1 {
		t.Fatalf("%+v", b)
	}
	for what, all := range map[string]garbage{"claimed": b, "read": gc.do("GET", batches+"/"+*b.ID, "").is(200).batch()} {
		got := all.Garbage[0]
		if got.Owner != string(s.main.ID) || got.DeletedAt.IsZero() || got.Path == "" {
			t.Errorf("%s: %+v", what, got)
		}
		var o record
		o.ID, o.Name, o.Owner, o.ContentLength, o.Sharks = got.ID, got.Name, "", got.ContentLength, want.Sharks
		o.Creator, o.EntityTag, o.Created, o.Modified, o.ContentMD5 = got.Creator, got.EntityTag, got.Created, got.Modified, got.ContentMD5
		o.ContentType, o.Headers, o.Roles, o.Properties, o.Checksum, o.Parts = got.ContentType, got.Headers, got.Roles, got.Properties, got.Checksum, got.Parts
		same(what, o, want)
	}
}
