package s3api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const versioningOn, versioningOff = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`, `<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`

func (a answer) version() string { return a.header.Get("X-Amz-Version-Id") }

func TestVersioningConfiguration(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/photos?versioning", "").want(200).hasNot("Status")
	if v := s.do("PUT", "/photos/k", hello).want(200).version(); v != "" {
		t.Errorf("version %q in a bucket without versions", v)
	}
	for _, document := range []string{
		`<VersioningConfiguration></VersioningConfiguration>`, `<VersioningConfiguration><Status>On</Status></VersioningConfiguration>`,
		`<VersioningConfiguration><Status>Enabled</Status><MfaDelete>x</MfaDelete></VersioningConfiguration>`,
	} {
		s.do("PUT", "/photos?versioning", document).fails(400, "IllegalVersioningConfigurationException")
	}
	s.do("PUT", "/photos?versioning", `<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>`).fails(501, "NotImplemented")
	s.do("PUT", "/photos?versioning", "<x").fails(400, "MalformedXML")
	s.do("PUT", "/none?versioning", versioningOn).fails(404, "NoSuchBucket")
	s.do("GET", "/photos?versioning", "").hasNot("Status")
	s.do("PUT", "/photos?versioning", versioningOff).want(200)
	s.do("GET", "/photos?versioning", "").has("<Status>Suspended</Status>")
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	s.do("GET", "/photos?versioning", "").has("<Status>Enabled</Status>")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", "before").want(200)
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	first := s.do("PUT", "/photos/k", "first", "x-amz-meta-n: 1").want(200).version()
	second := s.do("PUT", "/photos/k", "second", "x-amz-tagging: n=2").want(200).version()
	if first == "" || first == second {
		t.Fatalf("versions %q and %q", first, second)
	}
	s.do("GET", "/photos/k", "").is("second").head("X-Amz-Version-Id: "+second, "X-Amz-Tagging-Count: 1")
	s.do("GET", "/photos/k?versionId="+first, "").is("first").head("X-Amz-Version-Id: "+first, "X-Amz-Meta-N: 1")
	s.do("GET", "/photos/k?versionId="+first, "", "Range: bytes=1-2").want(206).is("ir")
	s.do("HEAD", "/photos/k?versionId=null", "").want(200).head("X-Amz-Version-Id: null", "Content-Length: 6")
	s.do("GET", "/photos/k?versionId="+strings.Replace(first, "7", "6", 1), "").fails(404, "NoSuchVersion")
	for _, id := range []string{"", "x", "0", strings.ToUpper(first), first + "0", "00000000-0000-0000-0000-000000000000"} {
		s.do("GET", "/photos/k?versionId="+id, "").fails(400, "InvalidArgument")
		s.do("DELETE", "/photos/k?versionId="+id, "").fails(400, "InvalidArgument")
	}

	s.do("PUT", "/photos/k?tagging&versionId="+first, `<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`).want(200).head("X-Amz-Version-Id: " + first)
	s.do("GET", "/photos/k?tagging&versionId="+first, "").has("<Key>a</Key>")
	s.do("GET", "/photos/k?tagging", "").has("<Key>n</Key>").hasNot("<Key>a</Key>")
	s.do("GET", "/photos/k?attributes&versionId="+first, "", "x-amz-object-attributes: ObjectSize").has("<ObjectSize>5</ObjectSize>").head("X-Amz-Version-Id: " + first)
	s.do("GET", "/photos/k?acl&versionId="+first, "").want(200)

	// A delete marker hides the object but keeps its versions.
	deleted := s.do("DELETE", "/photos/k", "").want(204).head("X-Amz-Delete-Marker: true")
	marker := deleted.version()
	s.do("GET", "/photos/k", "").fails(404, "NoSuchKey").head("X-Amz-Delete-Marker: true", "X-Amz-Version-Id: "+marker)
	s.do("GET", "/photos/k?versionId="+marker, "").fails(405, "MethodNotAllowed").head("X-Amz-Delete-Marker: true")
	s.do("PUT", "/photos/k?tagging&versionId="+marker, `<Tagging><TagSet></TagSet></Tagging>`).fails(405, "MethodNotAllowed")
	s.do("GET", "/photos?list-type=2", "").has("<KeyCount>0<")
	s.do("DELETE", "/photos", "").fails(409, "BucketNotEmpty")

	// A copy can name the source's version and so restore it.
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k").fails(404, "NoSuchKey")
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k?versionId="+marker).fails(400, "InvalidRequest")
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k?versionId=").fails(400, "InvalidArgument")
	back := s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k?versionId="+first).want(200).head("X-Amz-Copy-Source-Version-Id: " + first).version()
	s.do("GET", "/photos/k", "").is("first").head("X-Amz-Version-Id: "+back, "X-Amz-Meta-N: 1")
	changed := s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k", "x-amz-metadata-directive: REPLACE", "x-amz-meta-n: 3").want(200).version()
	if changed == back || changed == "" {
		t.Errorf("a copy onto itself has version %q of %q", changed, back)
	}

	list := s.do("GET", "/photos?versions", "").want(200)
	if got, want := list.elements("VersionId"), []string{changed, back, marker, second, first, "null"}; !slices.Equal(got, want) {
		t.Errorf("versions %v, want %v", got, want)
	}
	if got, want := list.elements("IsLatest"), []string{"true", "false", "false", "false", "false", "false"}; !slices.Equal(got, want) {
		t.Errorf("IsLatest %v", got)
	}
	list.has("<DeleteMarker>")

	s.do("DELETE", "/photos/k?versionId="+changed, "").want(204).head("X-Amz-Version-Id: " + changed)
	s.do("DELETE", "/photos/k?versionId="+back, "").want(204)
	s.do("GET", "/photos/k", "").fails(404, "NoSuchKey")
	s.do("DELETE", "/photos/k?versionId="+marker, "").want(204).head("X-Amz-Delete-Marker: true", "X-Amz-Version-Id: "+marker)
	s.do("GET", "/photos/k", "").is("second")
	s.do("DELETE", "/photos/k?versionId="+marker, "").want(204) // again
}

func TestListVersions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	var all []string
	for _, key := range []string{"a", "d/1", "d/2", "e"} {
		for range 3 {
			s.do("PUT", "/photos/"+key, key).want(200)
		}
		s.do("DELETE", "/photos/"+key, "").want(204)
	}
	all = s.do("GET", "/photos?versions", "").elements("VersionId")
	if len(all) != 16 {
		t.Fatalf("%d versions", len(all))
	}
	for _, size := range []string{"1", "2", "3", "5", "16"} {
		var got []string
		next := ""
		for {
			a := s.do("GET", "/photos?versions&max-keys="+size+next, "").want(200)
			got = append(got, a.elements("VersionId")...)
			if a.element("IsTruncated") != "true" {
				break
			}
			next = "&key-marker=" + escape(a.element("NextKeyMarker")) + "&version-id-marker=" + a.element("NextVersionIdMarker")
		}
		if !slices.Equal(got, all) {
			t.Errorf("pages of %s: %v, want %v", size, got, all)
		}
	}
	s.do("GET", "/photos?versions&delimiter=/", "").has("<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>").hasNot("d/1")
	s.do("GET", "/photos?versions&prefix=d/&key-marker=d/1", "").has("<Key>d/2</Key>").hasNot("<Key>d/1</Key>")
	s.do("GET", "/photos?versions&max-keys=0", "").want(200).has("<IsTruncated>false<").hasNot("<Key>")
	s.do("GET", "/photos?versions&version-id-marker="+all[0], "").fails(400, "InvalidArgument")
	s.do("GET", "/photos?versions&key-marker=a&version-id-marker=x", "").fails(400, "InvalidArgument")
}

func TestVersionsOfSDK(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	c, ctx, bucket := s.client(), t.Context(), aws.String("photos")
	ok[*s3.PutBucketVersioningOutput](t)(c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}))
	id := s.upload("/photos/big")
	tag := s.part("/photos/big", id, "1", "part")
	done := s.complete("/photos/big", id, tag).want(200)
	if done.version() == "" {
		t.Error("an upload in parts has no version")
	}
	put := ok[*s3.PutObjectOutput](t)(c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("big"), Body: strings.NewReader("over")}))
	s.do("GET", "/photos/big?versionId="+done.version(), "").is("part")
	s.do("GET", "/photos/big?versionId="+done.version()+"&partNumber=1", "").is("part")

	removed := ok[*s3.DeleteObjectsOutput](t)(c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: []types.ObjectIdentifier{
		{Key: aws.String("big")}, {Key: aws.String("none")}, {Key: aws.String("other"), VersionId: put.VersionId},
	}}}))
	if len(removed.Deleted) != 3 || !aws.ToBool(removed.Deleted[0].DeleteMarker) || aws.ToString(removed.Deleted[0].DeleteMarkerVersionId) == "" ||
		aws.ToString(removed.Deleted[2].VersionId) != aws.ToString(put.VersionId) || len(removed.Errors) > 0 {
		t.Errorf("DeleteObjects: %+v", removed)
	}
	s.do("GET", "/photos?list-type=2", "").has("<KeyCount>0<")
	var list []types.ObjectIdentifier
	versions := ok[*s3.ListObjectVersionsOutput](t)(c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: bucket}))
	for _, v := range versions.Versions {
		list = append(list, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
	}
	for _, v := range versions.DeleteMarkers {
		list = append(list, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
	}
	if len(versions.Versions) != 2 || len(versions.DeleteMarkers) != 2 {
		t.Errorf("ListObjectVersions: %+v", versions)
	}
	removed = ok[*s3.DeleteObjectsOutput](t)(c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: append(list, types.ObjectIdentifier{Key: aws.String("big"), VersionId: aws.String("bad")})}}))
	if len(removed.Deleted) != 4 || len(removed.Errors) != 1 || aws.ToString(removed.Errors[0].Code) != "NoSuchVersion" {
		t.Errorf("DeleteObjects: %+v", removed)
	}

	s.do("PUT", "/photos?versioning", versioningOff).want(200)
	if v := s.do("PUT", "/photos/k", "a").want(200).version(); v != "null" {
		t.Errorf("version %q while versioning is suspended", v)
	}
	s.do("PUT", "/photos/k", "b").want(200)
	s.do("DELETE", "/photos/k", "").want(204).head("X-Amz-Version-Id: null", "X-Amz-Delete-Marker: true")
	s.do("DELETE", "/photos/k?versionId=null", "").want(204)
	s.do("GET", "/photos?versions", "").hasNot("<VersionId>")
	s.do("DELETE", "/photos", "").want(204)
}

func TestPublicVersions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	old := s.do("PUT", "/photos/k", "old").version()
	s.do("PUT", "/photos/k", "new").want(200)
	s.anonymous("GET", "/photos/k", "").is("new")
	s.anonymous("GET", "/photos/k?versionId="+old, "").fails(403, "AccessDenied")
	s.anonymous("GET", "/photos?versions", "").fails(403, "AccessDenied")
	s.do("DELETE", "/photos/k", "").want(204)
	gone := s.anonymous("GET", "/photos/k", "")
	if gone.fails(404, "NoSuchKey"); gone.header.Get("X-Amz-Delete-Marker") != "" || gone.version() != "" {
		t.Errorf("an anonymous client sees the delete marker: %v", gone.header)
	}
}
