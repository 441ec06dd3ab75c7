package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

const versions = photos + "/versions"

type versionItem struct {
	Type, Name, Version, ID string
	Modified                time.Time
	Current                 bool
}

func (s *server) history(query string) (all []versionItem) {
	s.t.Helper()
	for marker := ""; ; {
		var p struct {
			Items      []versionItem
			NextMarker *string `json:"next_marker"`
		}
		s.do("GET", versions+"?"+query+marker, "").is(200).into(&p)
		if all = append(all, p.Items...); p.NextMarker == nil {
			return all
		}
		marker = "&marker=" + url.QueryEscape(*p.NextMarker)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testVersions)
}

func testVersions(t *testing.T, s *server) {
	set := func(body string) *answer { return s.do("PATCH", photos, body) }
	before := s.put("a/b", "before", "m-a: 0")
	if s.do("GET", objects+"a/b", "").is(200); before.Version != "" {
		t.Errorf("a version in a bucket without: %+v", before)
	}
	s.do("GET", photos, "").is(200).contains(`"versioning":"off"`)
	for _, bad := range []string{"x", "[]", "{}", `{"versioning":"off"}`, `{"versioning":1}`, `{"versioning":"enabled","name":"x"}`} {
		set(bad).fails(400, "InvalidArgument")
	}
	s.do("PATCH", photos, `{"versioning":"enabled"}`, "Content-Type: text/plain").fails(415, "UnsupportedMediaType")
	set(`{"versioning":"enabled"}`).is(200).contains(`"versioning":"enabled"`)
	first, second := s.put("a/b", "first", "m-a: 1"), s.put("a/b", "second, longer", "m-a: 2")
	other := s.put("c", "other")
	s.do("DELETE", objects+"a/b", "").is(204).has("Object-Delete-Marker: true")
	s.do("GET", objects+"a/b", "").fails(404, "ObjectNotFound")

	for _, query := range []string{"", "limit=1", "limit=2", "limit=4"} {
		got := s.history(query)
		if len(got) != 5 || got[0].Type != "delete_marker" || !got[0].Current || got[0].Modified.IsZero() || got[0].ID != "" {
			t.Fatalf("%q: %+v", query, got)
		}
		want := []versionItem{
			{"version", "a/b", second.Version, second.ID, second.Modified, false}, {"version", "a/b", first.Version, first.ID, first.Modified, false},
			{"version", "a/b", "null", before.ID, before.Modified, false}, {"version", "c", other.Version, other.ID, other.Modified, true},
		}
		if !slices.Equal(got[1:], want) {
			t.Errorf("%q: %+v\nwant %+v", query, got[1:], want)
		}
	}
	if got := s.history("prefix=c"); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("with a prefix: %+v", got)
	}
	marker := s.history("")[0].Version

	for version, body := range map[string]string{"null": "before", first.Version: "first", second.Version: "second, longer"} {
		at := objects + "a/b?version=" + version
		s.do("GET", at, "").says(body).has("Object-Version: " + version)
		s.do("HEAD", at, "").is(200).has("Object-Version: " + version)
		s.do("GET", at, "", "Range: bytes=1-2").is(206).says(body[1:3])
		s.do("GET", metadata+"a/b?version="+version, "").is(200).contains(fmt.Sprintf(`"version":%q`, version))
	}
	s.do("GET", objects+"a/b?version="+first.Version, "", `If-None-Match: "`+first.ID+`"`).is(304)
	for _, method := range []string{"GET", "DELETE"} {
		s.do(method, objects+"a/b?version=x", "").fails(400, "InvalidArgument")
		s.do(method, objects+"a/b?version=", "").fails(400, "InvalidArgument")
		s.do(method, objects+"a/b?version="+buckets.NewUUID(), "").fails(404, "VersionNotFound")
		s.do(method, objects+"c?version="+first.Version, "").fails(404, "VersionNotFound")
	}
	s.do("GET", objects+"a/b?version="+marker, "").fails(404, "ObjectNotFound")
	s.do("GET", metadata+"a/b?version="+marker, "").fails(404, "ObjectNotFound")
	s.do("PUT", objects+"a/b?version=null", "x").fails(400, "InvalidArgument")
	for _, bad := range []string{"a/b", "x/a/b", "null"} {
		s.do("GET", versions+"?marker="+bad, "").fails(400, "InvalidArgument")
	}

	s.do("DELETE", objects+"a/b?version="+second.Version, "", `If-Match: "`+first.ID+`"`).fails(412, "PreconditionFailedError")
	s.do("DELETE", objects+"a/b?version="+second.Version, "").is(204).has("Object-Version: " + second.Version)
	s.do("DELETE", objects+"a/b?version="+marker, "").is(204).has("Object-Delete-Marker: true")
	s.do("GET", objects+"a/b", "").says("first").has("Object-Version: " + first.Version)
	set(`{"versioning":"suspended"}`).is(200)
	if o := s.put("a/b", "null again"); o.Version != "null" {
		t.Errorf("while suspended: %+v", o)
	}
	if got := s.history("prefix=a/b"); len(got) != 2 || got[0].Version != "null" || !got[0].Current || got[1].Version != first.Version {
		t.Errorf("while suspended: %+v", got)
	}
	s.do("DELETE", photos, "").fails(409, "BucketNotEmpty")
}

func TestPolicyOfVersions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PATCH", photos, `{"versioning":"enabled"}`).is(200)
	o := s.put("k", hello)
	s.denying(`["s3:GetObjectVersion", "s3:DeleteObjectVersion", "s3:ListBucketVersions", "s3:PutBucketVersioning"]`, "")
	s.do("GET", objects+"k", "").says(hello)
	for _, target := range []string{objects + "k", metadata + "k"} {
		s.do("GET", target+"?version="+o.Version, "").fails(403, "AuthorizationFailed")
	}
	s.do("DELETE", objects+"k?version="+o.Version, "").fails(403, "AuthorizationFailed")
	s.do("GET", versions, "").fails(403, "AuthorizationFailed")
	s.do("PATCH", photos, `{"versioning":"suspended"}`).fails(403, "AuthorizationFailed")
	s.do("DELETE", objects+"k", "").is(204)
	s.denying(`"s3:GetObjectVersion"`, `"StringNotEquals": {"s3:versionid": "`+o.Version+`"}`)
	s.do("GET", objects+"k?version="+o.Version, "").says(hello)
	s.do("GET", objects+"k?version=null", "").fails(403, "AuthorizationFailed")
}

func TestDeleteLockedVersion(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		b, err := s.store.Bucket(ctx, s.main.ID, "photos")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.service.LockNewBucket(ctx, b.Owner, b.BucketRef); err != nil {
			t.Fatal(err)
		}
		o := s.put("k", strings.Repeat("x", 100_000))
		for _, hold := range []buckets.HoldStatus{buckets.HoldOn, buckets.HoldOff} {
			if _, err := s.service.UpdateObject(ctx, b.Owner, b.BucketRef, buckets.Update{Name: "k", Version: buckets.VersionID(o.Version), Lock: &buckets.LockChange{Hold: hold}}); err != nil {
				t.Fatal(err)
			}
			if deletion := s.do("DELETE", objects+"k?version="+o.Version, ""); hold == buckets.HoldOn {
				deletion.fails(403, "AuthorizationFailed")
				s.do("GET", objects+"k?version="+o.Version, "").is(200)
				done, err := s.service.DeleteObjects(ctx, b.Owner, b.BucketRef, []buckets.Deletion{{Name: "k", Version: buckets.VersionID(o.Version)}, {Name: "absent"}})
				if n := s.service.Locked(); err != nil || done[0].Err == nil || n != 2 {
					t.Errorf("%+v, %v, %d refusals of locks", done, err, n)
				}
			} else {
				deletion.is(204)
			}
		}
		s.do("PATCH", photos, `{"versioning":"suspended"}`).fails(409, "InvalidBucketState")
	})
}
