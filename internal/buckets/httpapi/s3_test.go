package httpapi_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/checksum"
	"holdfast/internal/web/webtest"
)

// upload uses S3, and returns the upload ID.
func (s *server) upload(target string, parts ...string) string {
	s.t.Helper()
	a := s.asS3("POST", target+"?uploads", "").is(200)
	_, id, _ := strings.Cut(a.body, "<UploadId>")
	id, _, _ = strings.Cut(id, "<")
	list := ""
	for i, body := range parts {
		tag := s.asS3("PUT", fmt.Sprintf("%s?partNumber=%d&uploadId=%s", target, i+1, id), body).is(200).header.Get("ETag")
		list += fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, tag)
	}
	s.asS3("POST", target+"?uploadId="+id, "<CompleteMultipartUpload>"+list+"</CompleteMultipartUpload>").is(200)
	return id
}

func TestObjectsOfS3(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.asS3("PUT", "/photos", "").is(200)
	s.do("GET", photos, "").is(200)
	sum := checksum.Sum(checksum.SHA256, []byte(hello)).String()
	tag := s.asS3("PUT", "/photos/a/b", hello, "Content-Type: text/plain", "x-amz-meta-Camera: box", "Content-Language: de", "x-amz-checksum-sha256: "+sum, "x-amz-tagging: k=v").is(200).header.Get("ETag")
	a := s.do("GET", objects+"a/b", "").is(200).says(hello).has("Content-Type: text/plain", "m-camera: box", "Content-Language: de", "Object-Checksum: SHA256 "+sum, "Durability-Level: 2")
	o := s.do("GET", metadata+"a%2Fb", "").is(200).object()
	if `"`+o.EntityTag+`"` != tag || o.EntityTag != hex.EncodeToString(o.ContentMD5) || a.header.Get("ETag") != `"`+o.ID+`"` || len(o.Sharks) != 2 || string(o.Properties) != "{}" || o.Checksum.Value != sum {
		t.Errorf("%+v, and S3's entity tag is %s", o, tag)
	}
	s.do("DELETE", objects+"a/b", "", `If-Match: "other"`).fails(412, "PreconditionFailedError")
	// S3 hides properties and roles. This API hides S3's internal properties.
	s.do("PATCH", metadata+"a/b", `{"properties":{"x":1},"roles":["`+role+`"]}`).is(200)
	if a := s.asS3("GET", "/photos/a/b?tagging", "").is(200); !strings.Contains(a.body, "<Value>v</Value>") {
		t.Errorf("the tags are gone: %s", a.body)
	}
	s.asS3("GET", "/photos/a/b", "", "x-amz-checksum-mode: ENABLED").is(200).has("ETag: "+tag, "x-amz-checksum-sha256: "+sum, "x-amz-meta-camera: box").says(hello)

	s.upload("/photos/parts", hello, "second part")
	s.do("GET", objects+"parts", "").is(200).says(hello+"second part").has("Content-MD5:", "Durability-Level:")
	s.do("GET", objects+"parts", "", fmt.Sprintf("Range: bytes=%d-%d", len(hello)-2, len(hello)+1)).is(206).says(hello[len(hello)-2:] + "se")
	if o := s.do("GET", metadata+"parts", "").is(200).object(); o.Parts != 2 || o.ContentMD5 != nil || !strings.HasSuffix(o.EntityTag, "-2") || o.ContentLength != int64(len(hello)+11) {
		t.Errorf("%+v", o)
	}
	if names, _ := s.do("GET", photos+"/objects?delimiter=/", "").names(); strings.Join(names, " ") != "a/ parts" {
		t.Error(names)
	}
}

func TestObjectsForS3(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testObjectsForS3)
}

func testObjectsForS3(t *testing.T, s *server) {
	sum := checksum.Sum(checksum.CRC32, []byte(hello)).String()
	o := s.put("a/b", hello, "Content-Type: text/plain", "m-camera: box", "Cache-Control: no-store", "Surrogate-Key: hidden", "Object-Checksum: CRC32 "+sum, "Object-Roles: "+role, `Object-Properties: {"x":1}`)
	s.asS3("GET", "/photos/a/b", "", "x-amz-checksum-mode: ENABLED").is(200).says(hello).has(`ETag: "`+o.EntityTag+`"`, "x-amz-checksum-crc32: "+sum, "Content-Type: text/plain", "x-amz-meta-camera: box",
		"Cache-Control: no-store", "Surrogate-Key:", "Last-Modified: "+o.Modified.Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	s.asS3("GET", "/photos/a/b", "", "If-None-Match: "+o.EntityTag).is(304)
	if a := s.asS3("GET", "/photos?list-type=2", "").is(200); !strings.Contains(a.body, "<Key>a/b</Key>") {
		t.Error(a.body)
	}
	// A copy has the properties but, like an ACL, not the roles.
	s.asS3("PUT", "/photos/copy", "", "x-amz-copy-source: /photos/a/b").is(200)
	if c := s.do("GET", metadata+"copy", "").is(200).object(); string(c.Properties) != `{"x":1}` || len(c.Roles) != 0 || c.ID == o.ID || c.Headers["surrogate-key"] != "hidden" {
		t.Errorf("%+v", c)
	}
	s.asS3("DELETE", "/photos/a/b", "").is(204)
	s.do("GET", objects+"a/b", "").fails(404, "ObjectNotFound")
	s.do("DELETE", objects+"copy", "").is(204)
	s.asS3("DELETE", "/photos", "").is(204)
	s.do("GET", photos, "").fails(404, "BucketNotFound")
}

func TestCreator(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testCreator)
}

func testCreator(t *testing.T, s *server) {
	check := func(key string) {
		t.Helper()
		if got := s.do("GET", metadata+key, "").is(200).object().Creator; got != string(s.main.ID) {
			t.Errorf("the creator of %s is %q, want %q", key, got, s.main.ID)
		}
	}
	if o := s.put("native", hello); o.Creator != string(s.main.ID) {
		t.Errorf("the creator in the response is %q", o.Creator)
	}
	check("native")
	s.put("native", hello)
	check("native")
	s.asS3("PUT", "/photos/row", "small").is(200)
	check("row")
	s.asS3("PUT", "/photos/node", hello).is(200)
	check("node")
	s.upload("/photos/parts", hello, "second part")
	check("parts")
	for source, key := range map[string]string{"node": "copy", "parts": "copy-of-parts"} {
		s.asS3("PUT", "/photos/"+key, "", "x-amz-copy-source: /photos/"+source).is(200)
		check(key)
	}
	s.asS3("PUT", "/photos/copy", "", "x-amz-copy-source: /photos/copy", "x-amz-metadata-directive: REPLACE", "x-amz-meta-a: b").is(200)
	check("copy")
	s.do("PATCH", metadata+"native", `{"properties":{"x":1}}`).is(200)
	check("native")
	s.form("form", hello)
	check("form")
}

func (s *server) form(key, file string) {
	s.t.Helper()
	now := s.clock.Now()
	fields := map[string]string{"key": key}
	policy := fmt.Sprintf(`{"expiration": %q, "conditions": [{"bucket": "photos"}, {"key": %q}, %s]}`,
		now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"), key, s.signer.FormConditions(now))
	s.signer.SignForm(fields, policy, now)
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			s.t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", key)
	if err == nil {
		_, err = io.WriteString(part, file)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		s.t.Fatal(err)
	}
	r := webtest.Request(s.t, s.s3, http.MethodPost, "/photos", &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	s.send(http.DefaultClient, r).is(http.StatusNoContent)
}
