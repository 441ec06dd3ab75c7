package s3api_test

import (
	"bufio"
	"crypto/md5"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const body = "0123456789abcdef"
	tag := s.do("PUT", "/photos/k", body).header.Get("Etag")
	s.do("PUT", "/photos/empty", "")
	for _, c := range []struct {
		header string
		status int
		body   string
		extent string
	}{
		{"bytes=0-3", 206, "0123", "bytes 0-3/16"},
		{"bytes=10-", 206, "abcdef", "bytes 10-15/16"},
		{"bytes=-4", 206, "cdef", "bytes 12-15/16"},
		{"bytes=-100", 206, body, "bytes 0-15/16"},
		{"bytes=14-99999999999999999999", 206, "ef", "bytes 14-15/16"},
		{"bytes=0-1,4-5", 200, body, ""},
		{"bytes=5-2", 200, body, ""},
		{"bytes=x", 200, body, ""},
		{"bytes=--1", 200, body, ""},
		{"rows=0-1", 200, body, ""},
	} {
		s.do("GET", "/photos/k", "", "Range: "+c.header).want(c.status).is(c.body).head("Content-Range: "+c.extent, "Accept-Ranges: bytes")
		s.do("HEAD", "/photos/k", "", "Range: "+c.header).want(c.status).is("").head("Content-Range: " + c.extent)
	}
	for _, header := range []string{"bytes=16-", "bytes=99-100", "bytes=-0"} {
		s.do("GET", "/photos/k", "", "Range: "+header).fails(416, "InvalidRange").head("Content-Range: bytes */16", "Etag:", "Last-Modified:").has("<ActualObjectSize>16<")
	}
	s.do("GET", "/photos/empty", "", "Range: bytes=0-").fails(416, "InvalidRange")
	s.do("GET", "/photos/k", "", "Range: bytes=0-0", "If-Range: "+tag).want(206).is("0")
	s.do("GET", "/photos/k", "", "Range: bytes=0-0", `If-Range: "other"`).want(200).is(body)
	s.do("GET", "/photos/k", "", "Range: bytes=0-0", "If-Range: W/"+tag).want(200)
	modified := s.do("HEAD", "/photos/k", "").header.Get("Last-Modified")
	s.do("GET", "/photos/k", "", "Range: bytes=0-0", "If-Range: "+modified).want(206)
	s.do("GET", "/photos/k?partNumber=1", "", "Range: bytes=0-0").fails(400, "InvalidRequest")
	s.do("GET", "/photos/k?partNumber=1", "").want(206).is(body)
	s.do("GET", "/photos/k?partNumber=2", "").fails(416, "InvalidPartNumber")
}

func TestPartNumberOfParts(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k", "x-amz-meta-a: b")
	parts := s.part("/photos/k", id, "3", "0123456789") + s.part("/photos/k", id, "7", "tail")
	s.complete("/photos/k", id, parts).want(200)
	s.do("GET", "/photos/k", "").is("0123456789tail").head("X-Amz-Meta-A: b", "X-Amz-Mp-Parts-Count:")
	s.do("GET", "/photos/k?partNumber=2", "").want(206).is("tail").head("Content-Range: bytes 10-13/14", "X-Amz-Mp-Parts-Count: 2")
	s.do("HEAD", "/photos/k?partNumber=1", "").want(206).head("Content-Length: 10")
	s.do("GET", "/photos/k?partNumber=3", "").fails(416, "InvalidPartNumber")
	s.do("GET", "/photos/k", "", "Range: bytes=8-11").want(206).is("89ta")
	s.do("GET", "/photos/k?attributes", "", "x-amz-object-attributes: ETag,ObjectParts,ObjectSize").want(200).has("<PartsCount>2<", "<ObjectSize>14<")
	s.do("GET", "/photos/k?attributes", "").fails(400, "InvalidArgument")
}

func TestChecksumOfPart(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const first, last = "0123456789", "tail"
	get := func(target string, status int, want ...string) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD"} {
			s.do(method, target, "", "x-amz-checksum-mode: ENABLED").want(status).head(want...)
			s.do(method, target, "").want(status).head("X-Amz-Checksum-Crc32:", "X-Amz-Checksum-Sha256:", "X-Amz-Checksum-Type:")
		}
	}
	for kind, upload := range map[string][]string{
		"COMPOSITE":   {"x-amz-checksum-algorithm: CRC32"},
		"FULL_OBJECT": {"x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT"},
	} {
		id := s.upload("/photos/k", upload...)
		whole := s.complete("/photos/k", id, s.part("/photos/k", id, "3", first)+s.part("/photos/k", id, "7", last)).want(200)
		get("/photos/k", 200, "X-Amz-Checksum-Crc32: "+whole.element("ChecksumCRC32"), "X-Amz-Checksum-Type: "+kind)
		get("/photos/k?partNumber=1", 206, "X-Amz-Checksum-Crc32: "+crc32Of(first), "X-Amz-Checksum-Type: "+kind)
		get("/photos/k?partNumber=2", 206, "X-Amz-Checksum-Crc32: "+crc32Of(last), "X-Amz-Checksum-Type: "+kind)
	}
	s.do("GET", "/photos/k", "", "x-amz-checksum-mode: ENABLED", "Range: bytes=0-9").want(206).head("X-Amz-Checksum-Crc32:", "X-Amz-Checksum-Type:")

	id := s.upload("/photos/k") // parts have checksums only if the client sends them
	part := s.part("/photos/k", id, "1", first, "x-amz-checksum-sha256: "+sha256Of(first))
	s.complete("/photos/k", id, part+s.part("/photos/k", id, "2", last)).want(200)
	get("/photos/k?partNumber=1", 206, "X-Amz-Checksum-Sha256: "+sha256Of(first), "X-Amz-Checksum-Type: FULL_OBJECT")
	get("/photos/k?partNumber=2", 206, "X-Amz-Checksum-Sha256:", "X-Amz-Checksum-Type:")

	s.do("PUT", "/photos/k", first, "x-amz-checksum-sha256: "+sha256Of(first)).want(200)
	get("/photos/k?partNumber=1", 206, "X-Amz-Checksum-Sha256: "+sha256Of(first), "X-Amz-Checksum-Type: FULL_OBJECT")
}

// The empty part follows a full page of parts.
func TestEmptyLastPart(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const body, parts = "0123456789", 1000
	account, err := s.options.Backend.Account(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.options.Backend.Bucket(t.Context(), account.ID, "photos")
	if err != nil {
		t.Fatal(err)
	}
	id := s.upload("/photos/k", "x-amz-checksum-algorithm: CRC32")
	list := s.part("/photos/k", id, "1", body)
	sum := s.do("GET", "/photos/k?uploadId="+id, "").want(200).element("ChecksumCRC32")
	for n := 2; n <= parts; n++ {
		list += strings.Replace(list[:strings.Index(list, "</Part>")+7], ">1<", ">"+strconv.Itoa(n)+"<", 1)
		sum5 := md5.Sum([]byte(body))
		err := s.options.Backend.PutPart(t.Context(), buckets.UploadKey{Owner: b.Owner, Bucket: b.BucketRef, Name: "k", ID: buckets.UploadID(id)}, buckets.Part{
			Number: n, Created: buckets.At(time.Now()), Checksum: buckets.Checksum{Algorithm: "CRC32", Value: sum},
			Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: int64(len(body)), MD5: sum5[:], Inline: []byte(body)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	list += s.part("/photos/k", id, strconv.Itoa(parts+1), "")
	s.complete("/photos/k", id, list).want(200)
	for _, method := range []string{"GET", "HEAD"} {
		s.do(method, "/photos/k?partNumber=1001", "", "x-amz-checksum-mode: ENABLED").want(200).is("").
			head("Content-Length: 0", "Content-Range:", "X-Amz-Mp-Parts-Count: 1001", "X-Amz-Checksum-Crc32: AAAAAA==", "X-Amz-Checksum-Type: COMPOSITE")
		s.do(method, "/photos/k?partNumber=1000", "").want(206).head("Content-Range: bytes 9990-9999/10000")
		s.do(method, "/photos/k?partNumber=1002", "").want(416)
	}
}

func TestAttributesOfParts(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k", "x-amz-checksum-algorithm: SHA256")
	bodies := []string{"0123456789", "abcdefghij", "tail"}
	parts := ""
	for i, number := range []string{"3", "5", "7"} {
		parts += s.part("/photos/k", id, number, bodies[i])
	}
	s.complete("/photos/k", id, parts).want(200)
	list := func(headers ...string) answer {
		return s.do("GET", "/photos/k?attributes", "", append(headers, "x-amz-object-attributes: ObjectParts")...)
	}
	all := list().want(200).has("<PartsCount>3<", "<IsTruncated>false<", "<MaxParts>1000<", "<NextPartNumberMarker>3<")
	if got := strings.Join(all.elements("Size"), ","); got != "10,10,4" {
		t.Fatal(all.body)
	}
	for i, sum := range all.elements("ChecksumSHA256") {
		if sum != sha256Of(bodies[i]) {
			t.Fatal(all.body)
		}
	}
	page := list("x-amz-max-parts: 1", "x-amz-part-number-marker: 1").want(200).
		has("<PartsCount>3<", "<PartNumberMarker>1<", "<IsTruncated>true<", "<MaxParts>1<", "<NextPartNumberMarker>2<")
	if got := page.elements("ChecksumSHA256"); len(got) != 1 || got[0] != sha256Of(bodies[1]) || page.element("PartNumber") != "2" {
		t.Fatal(page.body)
	}
	list("x-amz-part-number-marker: 2").want(200).has("<PartNumber>3<", "<Size>4<", "<IsTruncated>false<").hasNot("<PartNumber>2<")
	list("x-amz-part-number-marker: 3").want(200).has("<IsTruncated>false<").hasNot("<Part>")
	list("x-amz-max-parts: 0").want(200).has("<IsTruncated>false<", "<PartsCount>3<").hasNot("<Part>")
	list("x-amz-max-parts: x").fails(400, "InvalidArgument")
	list("x-amz-part-number-marker: -1").fails(400, "InvalidArgument")

	s.do("PUT", "/photos/k", "whole").want(200)
	list().want(200).hasNot("ObjectParts")
}

func TestConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, `If-Match: "x"`).fails(404, "NoSuchKey")
	a := s.do("PUT", "/photos/k", hello, "If-None-Match: *").want(200)
	tag := a.header.Get("Etag")
	modified := s.do("HEAD", "/photos/k", "").header.Get("Last-Modified")
	s.do("PUT", "/photos/k", "other", "If-None-Match: *").fails(412, "PreconditionFailed")
	s.do("PUT", "/photos/k", "other", `If-Match: "x"`).fails(412, "PreconditionFailed")
	s.do("PUT", "/photos/k", "other", "If-None-Match: "+tag).fails(501, "NotImplemented")
	s.do("GET", "/photos/k", "").is(hello)
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want 2: a refused PUT leaves none", n)
	}
	old := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for header, status := range map[string]int{
		"If-Match: " + tag: 200, "If-Match: *": 200, `If-Match: "x"`: 412, `If-Match: "x", ` + tag: 200,
		"If-None-Match: " + tag: 304, "If-None-Match: W/" + tag: 304, `If-None-Match: "x"`: 200, "If-None-Match: *": 304,
		"If-Modified-Since: " + modified: 304, "If-Modified-Since: " + old: 200, "If-Modified-Since: nonsense": 200,
		"If-Unmodified-Since: " + modified: 200, "If-Unmodified-Since: " + old: 412,
	} {
		got := s.do("GET", "/photos/k", "", header).want(status)
		s.do("HEAD", "/photos/k", "", header).want(status)
		switch status {
		case 304:
			got.is("").head("Etag: "+tag, "Last-Modified: "+modified)
		case 412:
			got.fails(412, "PreconditionFailed").head("Etag:")
		}
	}
	s.do("PUT", "/photos/k", "new", "If-Match: "+tag).want(200)
	s.do("DELETE", "/photos/k", "", "If-Match: "+tag).fails(412, "PreconditionFailed")

	id := s.upload("/photos/k")
	part := s.part("/photos/k", id, "1", hello)
	s.complete("/photos/k", id, part, "If-None-Match: *").fails(412, "PreconditionFailed")
	s.complete("/photos/k", id, part, "If-Match: "+tag).fails(412, "PreconditionFailed")
	s.do("GET", "/photos/k", "").is("new")
	s.complete("/photos/k", id, part, "If-Match: "+s.do("HEAD", "/photos/k", "").header.Get("Etag")).want(200)
}

func TestOverridesOfResponse(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, "Cache-Control: no-store", "Content-Disposition: inline", "Expires: Wed, 21 Oct 2026 07:28:00 GMT", "Content-Language: de").
		want(200)
	s.do("GET", "/photos/k", "").head("Cache-Control: no-store", "Content-Disposition: inline", "Expires: Wed, 21 Oct 2026 07:28:00 GMT", "Content-Language: de")
	s.do("GET", "/photos/k?response-content-type=text%2Fplain&response-cache-control=a%0d%0ab%3a%20c", "").
		head("Content-Type: text/plain", "Cache-Control: no-store", "B:")
}

func TestStoredHeaders(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, "x-amz-meta-name: Grüße 😀", "x-amz-meta-latin: caf\xe9").want(200)
	s.do("GET", "/photos/k", "").head("X-Amz-Meta-Name: =?UTF-8?Q?Gr=C3=BC=C3=9Fe_=F0=9F=98=80?=", "X-Amz-Meta-Latin: =?UTF-8?Q?caf=C3=A9?=")
	s.do("PUT", "/photos/k", hello, "x-amz-meta-big: "+strings.Repeat("x", 2049)).fails(400, "MetadataTooLarge")
	form := s.form(map[string]string{"key": "f", "x-amz-meta-a": "one\r\nSet-Cookie: two", "content-type": "text/plain\r\n\r\nbody"}, hello)
	s.send(form).want(204)
	s.do("GET", "/photos/f", "").is(hello).head("Set-Cookie:", "X-Amz-Meta-A: one  Set-Cookie: two", "Content-Type: text/plain    body")
	s.send(s.form(map[string]string{"key": "f", "x-amz-meta-a b": "x"}, hello)).want(400)
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	sum := crc32Of(hello)
	sha := sha256Of(hello)
	s.do("PUT", "/photos/k", hello, "x-amz-checksum-sha256: "+sha, "x-amz-sdk-checksum-algorithm: SHA256").want(200).head("X-Amz-Checksum-Sha256: " + sha)
	c := sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Size: 8, Trailers: []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: sum}}}
	s.chunked("/photos/k", hello, int64(len(hello)), c).want(200).head("X-Amz-Checksum-Crc32: " + sum)
	s.do("GET", "/photos/k", "").head("X-Amz-Checksum-Crc32:")
	s.do("GET", "/photos/k?attributes", "", "x-amz-object-attributes: Checksum").has("<ChecksumCRC32>"+sum+"<", "<ChecksumType>FULL_OBJECT<")

	// A part's checksum has the upload's algorithm, even if the client sends another.
	id := s.upload("/photos/m", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT")
	s.do("PUT", "/photos/m?partNumber=1&uploadId="+id, hello, "x-amz-checksum-sha256: "+sha).want(200).head("X-Amz-Checksum-Crc32: "+sum, "X-Amz-Checksum-Sha256:")
	copied := s.do("PUT", "/photos/m?partNumber=2&uploadId="+id, "", "x-amz-copy-source: photos/k").want(200).has("<ChecksumCRC32>" + sum + "<")
	part := func(number, tag string) string {
		return "<Part><PartNumber>" + number + "</PartNumber><ETag>" + tag + "</ETag><ChecksumCRC32>" + sum + "</ChecksumCRC32></Part>"
	}
	tag := copied.element("ETag")
	s.complete("/photos/m", id, part("1", tag)+part("2", tag), "x-amz-checksum-crc32: AAAAAA==").fails(400, "BadDigest").
		has("<Message>The CRC32 you specified did not match the calculated checksum.</Message>")
	s.complete("/photos/m", id, part("1", tag)+part("2", tag), "x-amz-checksum-crc32: "+crc32Of(hello+hello), "x-amz-checksum-sha256: "+sha, "x-amz-mp-object-size: "+strconv.Itoa(2*len(hello))).want(200).has("<ChecksumCRC32>" + crc32Of(hello+hello) + "<")

	// A copy has no parts, so its checksum covers the whole object.
	s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/m", "x-amz-checksum-algorithm: SHA256").want(200).has("<ChecksumSHA256>" + sha256Of(hello+hello) + "<")
}

func TestWrongBodiesAreNotStored(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	body := strings.Repeat("wrong ", 100000)
	s.do("PUT", "/photos/k", body, "Content-MD5: "+md5Of("x")).fails(400, "BadDigest")
	s.do("PUT", "/photos/k", body, "Content-MD5: short").fails(400, "InvalidDigest")
	for _, name := range []string{"crc32: AAAAAA==", "crc32c: AAAAAA==", "crc64nvme: AAAAAAAAAAA=", "sha1: 2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha256: " + sha256Of("")} {
		s.do("PUT", "/photos/k", body, "x-amz-checksum-"+name).fails(400, "BadDigest")
	}
	s.do("PUT", "/photos/k", body, "x-amz-checksum-md9: AA==").fails(400, "InvalidRequest")
	wrong := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 1000, Trailers: []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: "AAAAAA=="}}}
	s.chunked("/photos/k", body, int64(len(body)), wrong).fails(400, "BadDigest")
	r := s.request("PUT", "/photos/k", body)
	s.main.Sign(r, sha256Hex("x"), time.Now())
	s.send(r).fails(400, "XAmzContentSHA256Mismatch")
	id := s.upload("/photos/k")
	s.do("PUT", "/photos/k?partNumber=1&uploadId="+id, body, "Content-MD5: "+md5Of("x")).fails(400, "BadDigest")
	s.do("GET", "/photos/k?uploadId="+id, "").want(200).hasNot("<Part>")
	s.nothing("k")
}

// TestDeclaredCRC64NVME checks that the client's checksum protects the body on the nodes, even if the first bytes were
// read separately.
func TestDeclaredCRC64NVME(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, size := range []int{inline, inline + 1, buckets.ChunkSize, buckets.ChunkSize + inline, 3*buckets.ChunkSize + 5} {
		body := strings.Repeat("c", size)
		sum := checksum.Sum(checksum.CRC64NVME, []byte(body)).String()
		s.do("PUT", "/photos/header", body, "x-amz-checksum-crc64nvme: "+sum).want(200)
		trailer := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 7000, Trailers: []sigv4test.Trailer{{Name: "x-amz-checksum-crc64nvme", Value: sum}}}
		s.chunked("/photos/trailer", body, int64(size), trailer).want(200)
		for _, key := range []string{"header", "trailer"} {
			s.do("GET", "/photos/"+key, "", "x-amz-checksum-mode: ENABLED").want(200).is(body).head("x-amz-checksum-crc64nvme: " + sum)
			s.do("GET", "/photos/"+key, "", "Range: bytes=-3").want(206).is("ccc")
		}
	}
}

func (s *server) nothing(key string) {
	s.t.Helper()
	s.do("GET", "/photos/"+key, "").fails(404, "NoSuchKey")
	if n := s.files(); n != 0 {
		s.t.Errorf("%d files, want none", n)
	}
}

func (s *server) raw(request string) *http.Response {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil
	}
	response.Body.Close()
	return response
}

func TestTruncatedBodiesAreNotStored(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	body := strings.Repeat("body ", 100000)
	for _, payload := range []string{sigv4test.Unsigned, sha256Hex(body)} {
		r := s.request("PUT", "/photos/k", body)
		s.main.Sign(r, payload, time.Now())
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		if a := s.raw(text.String()[:text.Len()-1000]); a != nil && a.StatusCode != 400 {
			t.Errorf("status %d", a.StatusCode)
		}
	}
	s.nothing("k")
}

// A client must not mistake a truncated body for a complete body.
func TestBrokenBodyClosesConnection(t *testing.T) {
	t.Parallel()
	s := withBucket(t, slog.New(slog.DiscardHandler)) // the server logs an error
	body := strings.Repeat("0123456789", 200000)
	s.do("PUT", "/photos/k", body).want(200)
	s.damage(func(b []byte) { b[len(b)-1] ^= 1 })
	r := s.request("GET", "/photos/k", "")
	s.main.Sign(r, sigv4test.Unsigned, time.Now())
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); err == nil || n >= int64(len(body)) {
		t.Errorf("%d bytes without an error", n)
	}
}

func (s *server) damage(change func([]byte)) {
	s.t.Helper()
	for _, folder := range s.folders {
		err := filepath.WalkDir(filepath.Join(folder, "v2"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			change(b)
			return os.WriteFile(path, b, 0o600)
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// An unreadable source is a server error.
func TestCopyOfDamagedBody(t *testing.T) {
	t.Parallel()
	s := withBucket(t, slog.New(slog.DiscardHandler)) // the server logs an error
	s.do("PUT", "/photos/k", strings.Repeat("0123456789", 200000)).want(200)
	s.damage(func(b []byte) { b[0] ^= 1 })
	s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/k").fails(500, "InternalError")
	s.do("HEAD", "/photos/copy", "").want(404)
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want the 2 of the source", n)
	}
}

// TestMissingBucketFirst checks that the error for a missing bucket takes precedence, even if the write itself finds the
// bucket.
func TestMissingBucketFirst(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do("PUT", "/photos", "").want(200)
	large := strings.Repeat("x", inline+1)
	for _, tc := range []struct {
		method, target, body, header string
		status                       int
		code                         string // in an existing bucket
	}{
		{"PUT", "/k", "x", "x-amz-tagging: a=b&a=c", 400, "InvalidArgument"},
		{"PUT", "/k", "x", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==", 400, "BadDigest"},
		{"PUT", "/k", large, "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==", 400, "BadDigest"},
		{"PUT", "/k", "x", "If-Match: a", 404, "NoSuchKey"},
		{"PUT", "/k", "x", "x-amz-copy-source: photos/none", 404, "NoSuchKey"},
		{"PUT", "/k?partNumber=1", "x", "a: b", 400, "InvalidArgument"},
		{"PUT", "/k", "x", "x-amz-expected-bucket-owner: 123456789012", 403, "AccessDenied"},
		{"DELETE", "/k", "", "x-amz-expected-bucket-owner: 123456789012", 403, "AccessDenied"},
		{"DELETE", "/k", "", "If-Match: a", 404, "NoSuchKey"},
		{"DELETE", "/k?versionId=1", "", "a: b", 400, "InvalidArgument"},
	} {
		t.Log(tc)
		s.do(tc.method, "/photos"+tc.target, tc.body, tc.header).fails(tc.status, tc.code)
		s.do(tc.method, "/absent"+tc.target, tc.body, tc.header).fails(404, "NoSuchBucket")
		s.do(tc.method, "/absent"+tc.target, tc.body, tc.header, "Origin: https://example.org").fails(404, "NoSuchBucket")
	}
	s.do("DELETE", "/absent/k", "").fails(404, "NoSuchBucket")
	s.do("PUT", "/absent/k", large).fails(404, "NoSuchBucket")
	s.as(s.other, "PUT", "/photos/k", "x").fails(404, "NoSuchBucket")
}
