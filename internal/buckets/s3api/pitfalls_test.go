package s3api_test

import (
	"crypto/md5"
	"encoding/base64"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

func crc32Of(s string) string {
	n := crc32.ChecksumIEEE([]byte(s))
	return base64.StdEncoding.EncodeToString([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func md5Of(s string) string {
	sum := md5.Sum([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const hello = "hello, storage nodes" // larger than any inline body

// New SDKs frame bodies. The frames must not be stored.
func TestFramesAreNotStored(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, size := range []int64{int64(len(hello)), -1} { // JavaScript's streams have no length
		c := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 7, Trailers: []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: crc32Of(hello)}}}
		s.chunked("/photos/k", hello, size, c).want(200).head("X-Amz-Checksum-Crc32: " + crc32Of(hello))
		s.do("GET", "/photos/k", "", "x-amz-checksum-mode: ENABLED").want(200).is(hello).
			head("X-Amz-Checksum-Crc32: "+crc32Of(hello), "X-Amz-Checksum-Type: FULL_OBJECT", "Content-Encoding:")
	}
	s.chunked("/photos/k", hello, int64(len(hello)), sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 8}).want(200)
	s.do("GET", "/photos/k", "").is(hello)
}

func TestPayloadModes(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	signed := func(payload string, headers ...string) answer {
		r := s.request("PUT", "/photos/k", hello, headers...)
		s.main.Sign(r, payload, time.Now())
		return s.send(r)
	}
	size := int64(len(hello))
	crc, castagnoli := crc32Of(hello), checksum.Sum(checksum.CRC32C, []byte(hello)).String()
	trailer := func(name, sum string) []sigv4test.Trailer { return []sigv4test.Trailer{{Name: name, Value: sum}} }
	for name, put := range map[string]func() answer{
		"aws-cli 2.9, hash":     func() answer { return signed(sha256Hex(hello), "Content-MD5: "+md5Of(hello)) },
		"aws-cli 2.9, unsigned": func() answer { return signed(sigv4test.Unsigned) },
		"s3cmd":                 func() answer { return signed(sha256Hex(hello)) },
		"rclone": func() answer {
			r := s.request("PUT", "/photos/k", hello, "Content-MD5: "+md5Of(hello))
			s.main.Presign(r, time.Minute, time.Now())
			return s.send(r)
		},
		"restic": func() answer {
			return s.chunked("/photos/k", hello, size, sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 8})
		},
		"minio-go": func() answer {
			c := sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Size: 8, Trailers: trailer("x-amz-checksum-crc32c", castagnoli)}
			return s.chunked("/photos/k", hello, size, c, "x-amz-checksum-algorithm: CRC32C")
		},
		"Go SDK, hash": func() answer { return signed(sha256Hex(hello), "x-amz-checksum-crc32: "+crc) },
		"Go SDK, trailer": func() answer {
			return s.chunked("/photos/k", hello, size, sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 8, Trailers: trailer("x-amz-checksum-crc32", crc)})
		},
		"JavaScript SDK, stream": func() answer {
			return s.chunked("/photos/k", hello, -1, sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 8, Trailers: trailer("x-amz-checksum-crc32", crc)})
		},
	} {
		if a := put(); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		s.do("GET", "/photos/k", "").want(200).is(hello).head("Content-Length: "+strconv.Itoa(len(hello)), "Content-Encoding:")
		s.do("DELETE", "/photos/k", "").want(204)
	}
	// If the body is not signed, only the checksum protects it.
	wrong := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 8, Trailers: trailer("x-amz-checksum-crc32", "AAAAAA==")}
	s.chunked("/photos/k", hello, size, wrong).fails(400, "BadDigest")
	s.do("HEAD", "/photos/k", "").want(404)
}

// s3cmd and restic send a slash after the bucket.
func TestTrailingSlashOfBucket(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do("PUT", "/photos/", "").want(200)
	s.do("PUT", "/photos/k", hello).want(200)
	for _, target := range []string{"/photos", "/photos/"} {
		s.do("HEAD", target, "").want(200).is("")
		s.do("GET", target, "").want(200).has("<Key>k</Key>")
		s.do("GET", target+"?uploads=", "").want(200).has("<ListMultipartUploadsResult")
	}
	s.do("DELETE", "/photos/", "").fails(409, "BucketNotEmpty")
	s.do("DELETE", "/photos/k", "").want(204)
	s.do("DELETE", "/photos/", "").want(204)
	s.do("HEAD", "/photos", "").want(404)
}

func TestDeleteObjectsNeedsNoContentMD5(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/a", hello)
	list := "<Delete><Object><Key>a</Key></Object><Object><Key>absent</Key></Object></Delete>"
	s.do("POST", "/photos?delete", list, "x-amz-checksum-crc32: "+crc32Of(list)).want(200).has("<Deleted><Key>a</Key>", "<Deleted><Key>absent</Key>")
	s.do("HEAD", "/photos/a", "").want(404)
	s.do("POST", "/photos?delete", list, "x-amz-checksum-crc32: AAAAAA==").fails(400, "BadDigest")
	s.do("POST", "/photos?delete", list, "Content-MD5: "+md5Of("other")).fails(400, "BadDigest")
}

// The JavaScript SDK puts an empty body's checksum into presigned URLs.
func TestPresignedPutOfJavaScriptSDK(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	r := s.request("PUT", "/photos/k", hello)
	r.URL.RawQuery = "x-amz-checksum-crc32=AAAAAA==&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject&x-amz-meta-camera=box&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"
	s.main.Presign(r, time.Minute, time.Now())
	s.send(r).want(200)
	s.do("GET", "/photos/k", "").is(hello).head("X-Amz-Meta-Camera: box")
}

func TestHeadersInPresignedURL(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, "x-amz-meta-camera: box", "x-amz-tagging: a=1").want(200)
	presigned := func(method, path, query string) answer {
		r := s.request(method, path, "")
		r.URL.RawQuery = query
		s.main.Presign(r, time.Minute, time.Now())
		return s.send(r)
	}
	const copied = "x-amz-copy-source=photos/k&"
	for query, code := range map[string]string{
		"x-amz-grant-read=id%3Dx": "501 NotImplemented", "X-Amz-Grant-Full-Control=id%3Dx": "501 NotImplemented",
		"x-amz-server-side-encryption=AES256": "501 NotImplemented", "x-amz-server-side-encryption=%00": "400 InvalidArgument",
		"x-amz-write-offset-bytes=3": "501 NotImplemented", "x-amz-expected-bucket-owner=other": "403 AccessDenied",
		"x-amz-acl=private&x-amz-acl=public-read": "400 InvalidArgument", "x-amz-acl=private&X-Amz-Acl=public-read": "400 InvalidArgument",
		copied + "x-amz-metadata-directive=KEEP": "400 InvalidArgument", copied + "x-amz-tagging-directive=KEEP": "400 InvalidArgument",
		copied + "x-amz-source-expected-bucket-owner=other": "403 AccessDenied",
	} {
		status, code, _ := strings.Cut(code, " ")
		n, _ := strconv.Atoi(status)
		presigned("PUT", "/photos/new", query).fails(n, code)
	}
	presigned("GET", "/photos/k", "x-amz-expected-bucket-owner=other").fails(403, "AccessDenied")
	s.do("GET", "/photos/new", "").want(404)
	presigned("PUT", "/photos/new", copied+"x-amz-metadata-directive=REPLACE&x-amz-meta-lens=50&x-amz-tagging-directive=REPLACE&x-amz-tagging=a%3D2%26b%3D3").want(200)
	s.do("GET", "/photos/new", "").is(hello).head("X-Amz-Meta-Lens: 50", "X-Amz-Meta-Camera: ", "X-Amz-Tagging-Count: 2")
	presigned("POST", "/photos/up", "uploads=&x-amz-checksum-algorithm=SHA256&x-amz-checksum-type=COMPOSITE").want(200).head("X-Amz-Checksum-Algorithm: SHA256")
	presigned("PUT", "/photos/none", "x-amz-user-agent=aws-sdk-js&x-amz-trailer=x-amz-checksum-crc32&x-amz-decoded-content-length=7&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD").want(200)
}

// Clients may send a key's "?" unescaped in x-amz-copy-source.
func TestCopySourceWithQuestionMark(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/a", "wrong").want(200)
	s.do("PUT", "/photos/a%3Fb=c", hello).want(200)
	for _, source := range []string{"photos/a?b=c", "photos/a%3Fb=c", "photos/a?b=c?versionId=null"} {
		s.do("PUT", "/photos/to", "", "x-amz-copy-source: "+source).want(200)
		s.do("GET", "/photos/to", "").is(hello)
		s.do("DELETE", "/photos/to", "").want(204)
	}
	s.do("PUT", "/photos/to", "", "x-amz-copy-source: photos/a?x").fails(404, "NoSuchKey")
	s.do("PUT", "/photos/to", "", "x-amz-copy-source: photos/a?versionId=1").fails(400, "InvalidArgument")
}

func TestPresignedURLs(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	for method, status := range map[string]int{"GET": 200, "HEAD": 200} {
		r := s.request(method, "/photos/k", "")
		s.main.Presign(r, time.Minute, time.Now())
		s.send(r).want(status)
		r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "Expires=60", "Expires=61")
		s.send(r).want(403)
	}
	r := s.request("GET", "/photos/k", "")
	s.main.Presign(r, time.Minute, time.Now().Add(-2*time.Minute))
	s.send(r).fails(403, "AccessDenied")
	r = s.request("DELETE", "/photos/k", "")
	s.main.Presign(r, time.Minute, time.Now())
	r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "%3B", ";")
	s.send(r).want(204)
}

// s3cmd signs its first mb for the region "US" and retries with the region in the error.
func TestRegionInAuthorizationHeaderMalformed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	wrong := s.main
	wrong.Region = "US"
	s.as(wrong, "PUT", "/photos/", "").fails(400, "AuthorizationHeaderMalformed").has("<Region>us-east-1</Region>")
	s.as(wrong, "HEAD", "/photos", "").want(400).head("X-Amz-Bucket-Region: us-east-1").is("")
}

func TestLocationOfUSEast1IsEmpty(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, target := range []string{"/photos?location", "/photos/?location="} {
		s.do("GET", target, "").want(200).has(`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	}
}

// rclone creates the bucket again before uploads.
func TestCreateOwnBucketAgain(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello)
	s.do("PUT", "/photos", "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>").want(200)
	s.do("GET", "/photos/k", "").is(hello)
	s.as(s.other, "PUT", "/photos", "").want(200)
	s.as(s.other, "GET", "/photos/k", "").fails(404, "NoSuchKey")
	s.do("PUT", "/photos", "<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucketConfiguration>").fails(400, "InvalidLocationConstraint")
	s.do("PUT", "/Photos", "").fails(400, "InvalidBucketName")
}

// Only us-east-1, Amazon's oldest region, lets an owner create a bucket twice, and has no location constraint.
func TestOtherRegions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.s3.Region = "eu-central-1"
	s.do("PUT", "/photos", "<CreateBucketConfiguration><LocationConstraint>eu-central-1</LocationConstraint></CreateBucketConfiguration>").want(200)
	s.do("PUT", "/photos", "").fails(409, "BucketAlreadyOwnedByYou")
	s.do("GET", "/photos?location", "").want(200).has(">eu-central-1</LocationConstraint>")
	s.do("PUT", "/other", "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>").fails(400, "InvalidLocationConstraint")
}

// rclone updates a file's time by copying the object onto itself.
func TestCopyOntoItselfReplacesMetadata(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	tag := s.do("PUT", "/photos/k", hello, "x-amz-meta-mtime: 1", "Content-Type: text/plain").header.Get("Etag")
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k").fails(400, "InvalidRequest")
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k", "x-amz-metadata-directive: REPLACE", "x-amz-meta-mtime: 2").want(200)
	s.do("GET", "/photos/k", "").is(hello).head("X-Amz-Meta-Mtime: 2", "Content-Type: binary/octet-stream", "Etag: "+tag)
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want one on each node", n)
	}
}

// restic requests pages with the token.
func TestTruncatedListHasContinuationToken(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, k := range []string{"keys/a", "keys/b", "keys/c"} {
		s.do("PUT", "/photos/"+k, "")
	}
	a := s.do("GET", "/photos/?list-type=2&prefix=keys/&delimiter=/&max-keys=2", "").want(200).has("<IsTruncated>true<", "<KeyCount>2<")
	s.do("GET", "/photos/?list-type=2&prefix=keys/&delimiter=/&max-keys=2&continuation-token="+escape(a.element("NextContinuationToken")), "").
		has("<Key>keys/c</Key>", "<IsTruncated>false<").hasNot("keys/b")
	s.do("HEAD", "/photos/config", "").want(404).is("")
}

// mc probes the signature with a bucket that does not exist.
func TestProbeOfAbsentBucket(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/probe-bsign-abc/?location=", "").fails(404, "NoSuchBucket")
	forged := s.main
	forged.Secret += "x"
	s.as(forged, "GET", "/probe-bsign-abc/?location=", "").fails(403, "SignatureDoesNotMatch")
	s.do("PUT", "/photos/k", hello)
	s.do("GET", "/photos/?versions=", "").has("<VersionId>null</VersionId>", "<Key>k</Key>")
	s.do("GET", "/photos/?object-lock=", "").fails(404, "ObjectLockConfigurationNotFoundError")
	s.do("GET", "/photos/?list-type=2&max-keys=1", "").has("<Key>k</Key>")
}

func TestExpectedOwner(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	_, owner, _ := strings.Cut(s.do("GET", "/", "").want(200).body, "<ID>")
	owner, _, _ = strings.Cut(owner, "</ID>")
	const other = "123456789012"
	s.do("PUT", "/photos/k", hello, "x-amz-expected-bucket-owner: "+other).fails(403, "AccessDenied")
	s.nothing("k")
	s.do("PUT", "/photos/k", hello, "x-amz-expected-bucket-owner: "+owner).want(200)
	s.do("GET", "/photos/k", "", "x-amz-expected-bucket-owner: "+other).fails(403, "AccessDenied")
	s.do("PUT", "/photos/l", "", "x-amz-copy-source: photos/k", "x-amz-source-expected-bucket-owner: "+other).fails(403, "AccessDenied")
	s.do("HEAD", "/photos/l", "").want(404)
	s.do("PUT", "/photos/l", "", "x-amz-copy-source: photos/k", "x-amz-source-expected-bucket-owner: "+owner).want(200)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/photos?versioning", "").want(200).has("<VersioningConfiguration")
	for query, code := range map[string]string{
		"policy": "NoSuchBucketPolicy", "cors": "NoSuchCORSConfiguration", "lifecycle": "NoSuchLifecycleConfiguration", "tagging": "NoSuchTagSet",
		"encryption": "ServerSideEncryptionConfigurationNotFoundError", "replication": "ReplicationConfigurationNotFoundError",
	} {
		s.do("GET", "/photos?"+query, "").fails(404, code)
	}
	s.do("PUT", "/photos/k", hello, "x-amz-acl: private", "x-amz-storage-class: STANDARD").want(200)
	s.do("GET", "/photos/k?acl", "").want(200).has("FULL_CONTROL").hasNot("AllUsers")
	s.do("PUT", "/photos/k", hello, "x-amz-server-side-encryption: AES256").fails(501, "NotImplemented")
	s.do("PUT", "/photos/k", hello, "x-amz-acl: public-read").fails(400, "AccessControlListNotSupported")
}

// aws-cli sends escaped keys and signs them unchanged.
func TestRawPathIsSigned(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/b%20%2Bc", hello).want(200).is("")
	s.do("GET", "/photos", "").has("<Key>b +c</Key>")
	s.do("GET", "/photos/b%20+c", "").is(hello)
	s.do("GET", "/photos/b+%2Bc", "").fails(404, "NoSuchKey")
}

func TestEntityTagsAreQuoted(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const tag = `"5d41402abc4b2a76b9719d911017c592"`
	s.do("PUT", "/photos/k", "hello").head("Etag: " + tag)
	s.do("GET", "/photos/k", "").head("Etag: " + tag)
	s.do("GET", "/photos", "").has("<ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag>")
	s.do("GET", "/photos/k", "", "If-None-Match: "+tag).want(304).is("").head("Etag: " + tag)
	s.do("DELETE", "/photos/k", "").want(204).is("")
	s.do("DELETE", "/photos/k", "").want(204)
}

// The server requests a body only after checking the signature.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	forged := s.main
	forged.Secret += "x"
	for signer, status := range map[sigv4test.Signer]int{s.main: 200, forged: 403} {
		asked := false
		r := s.request("PUT", "/photos/k", hello, "Expect: 100-continue")
		body := strings.NewReader(hello)
		r.Body = readFunc(func(p []byte) (int, error) {
			asked = true
			return body.Read(p)
		})
		signer.Sign(r, sigv4test.Unsigned, time.Now())
		transport := &http.Transport{ExpectContinueTimeout: time.Minute}
		defer transport.CloseIdleConnections()
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status || asked != (status == 200) {
			t.Errorf("status %d, want %d; the body was asked for: %t", response.StatusCode, status, asked)
		}
	}
}

// botocore also sends Expect without a body, and gets no 100 Continue. It then parses the next response on the
// connection as if it belonged to this response.
func TestExpectContinueWithoutBody(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, signer := range []sigv4test.Signer{s.main, {AccessKeyID: "unknown", Region: region}} {
		r := s.request("PUT", "/photos/k", "", "Expect: 100-continue")
		signer.Sign(r, sigv4test.Unsigned, time.Now())
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if !response.Close {
			t.Errorf("status %d: the connection is not closed", response.StatusCode)
		}
	}
}

// SDKs use names in user metadata as the response spells them.
func TestUserMetadataInLowerCase(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello, "X-Amz-Meta-Camera-Model: box").want(200)
	r := s.request("GET", "/photos/k", "")
	s.main.Sign(r, sigv4test.Unsigned, time.Now())
	conn, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.Close = true
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	if text := string(ok[[]byte](t)(io.ReadAll(conn))); !strings.Contains(text, "\r\nx-amz-meta-camera-model: box\r\n") {
		t.Errorf("answer %q", text)
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
func (f readFunc) Close() error               { return nil }

// A client that received no response repeats the request.
func TestCompleteIsIdempotent(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k")
	parts := s.part("/photos/k", id, "1", "0123456789") + s.part("/photos/k", id, "2", "x")
	tag := s.complete("/photos/k", id, parts).want(200).element("ETag")
	if again := s.complete("/photos/k", id, parts).want(200).element("ETag"); again != tag || !strings.HasSuffix(tag, "-2&quot;") {
		t.Errorf("ETag %s, then %s", tag, again)
	}
	s.do("GET", "/photos/k", "").is("0123456789x")
}

func TestErrorsOfParts(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k")
	one, two := s.part("/photos/k", id, "1", "small"), s.part("/photos/k", id, "2", "0123456789")
	s.complete("/photos/k", id, one+two).fails(400, "EntityTooSmall")
	s.complete("/photos/k", id, two+one).fails(400, "InvalidPartOrder")
	s.complete("/photos/k", id, two+"<Part><PartNumber>3</PartNumber><ETag>x</ETag></Part>").fails(400, "InvalidPart")
	s.complete("/photos/k", id, "<Part><PartNumber>2</PartNumber><ETag>x</ETag></Part>").fails(400, "InvalidPart")
	s.complete("/photos/k", id, "").fails(400, "MalformedXML")
	s.complete("/photos/k", id, one, "x-amz-mp-object-size: 4").fails(400, "InvalidRequest").
		has("<Message>The provided 'x-amz-mp-object-size' header does not match what was computed.</Message>")
	for _, size := range []string{"-1", "05", "+5", "x"} { // the part has 5 bytes
		s.complete("/photos/k", id, one, "x-amz-mp-object-size: "+size).fails(400, "InvalidRequest")
	}
	s.complete("/photos/k", "123", one).fails(404, "NoSuchUpload")
	for _, number := range []string{"0", "10001", "x", "-1"} {
		s.do("PUT", "/photos/k?uploadId="+id+"&partNumber="+number, hello).fails(400, "InvalidArgument")
	}
	var many strings.Builder
	for i := range 10001 {
		many.WriteString("<Part><PartNumber>" + strconv.Itoa(i+1) + "</PartNumber><ETag>x</ETag></Part>")
	}
	s.complete("/photos/k", id, many.String()).fails(400, "MalformedXML")
	s.do("DELETE", "/photos/k?uploadId="+id, "").want(204)
	s.do("GET", "/photos/k?uploadId="+id, "").fails(404, "NoSuchUpload")
}

func TestLimitsOfLists(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", "")
	for _, query := range []string{"list-type=2", "", "versions"} {
		s.do("GET", "/photos?"+query+"&max-keys=0", "").want(200).has("<MaxKeys>0<", "<IsTruncated>false<").hasNot("<Key>")
		s.do("GET", "/photos?"+query+"&max-keys=5000", "").want(200).has("<MaxKeys>1000<", "<Key>k<")
		s.do("GET", "/photos?"+query+"&max-keys=-1", "").fails(400, "InvalidArgument")
		s.do("GET", "/photos?"+query+"&encoding-type=rot13", "").fails(400, "InvalidArgument")
	}
	list := strings.Repeat("<Object><Key>k</Key></Object>", 1000)
	s.do("POST", "/photos?delete", "<Delete><Quiet>true</Quiet>"+list+"</Delete>").want(200).hasNot("<Deleted>").hasNot("<Error>")
	s.do("POST", "/photos?delete", "<Delete>"+list+"<Object><Key>k</Key></Object></Delete>").fails(400, "MalformedXML")
	s.do("POST", "/photos?delete", "<Delete></Delete>").fails(400, "MalformedXML")
	s.do("POST", "/photos?delete", "<Delete><Object><Key></Key></Object></Delete>").want(200).has("<Code>UserKeyMustBeSpecified</Code>")
	s.do("PUT", "/photos/"+strings.Repeat("k", 1024), hello).want(200)
	s.do("PUT", "/photos/"+strings.Repeat("k", 1025), hello).fails(400, "KeyTooLongError")
}

func TestGroupsAndKeysOfAPage(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, k := range []string{"a", "b/1", "b/2", "b0", "c"} {
		s.do("PUT", "/photos/"+k, "")
	}
	var all []string
	for marker, more := "", "true"; more == "true"; {
		a := s.do("GET", "/photos?delimiter=/&max-keys=1&marker="+escape(marker), "").want(200)
		more, marker = a.element("IsTruncated"), a.element("NextMarker")
		all = append(all, a.elements("Key")...)
		all = append(all, a.elements("CommonPrefixes")...)
	}
	if got := strings.Join(all, " "); got != "a <Prefix>b/</Prefix> b0 c" {
		t.Error(got)
	}
	s.do("GET", "/photos?max-keys=1", "").has("<IsTruncated>true<").hasNot("NextMarker")
	s.do("GET", "/photos?delimiter=/2&prefix=b", "").has("<Prefix>b/2</Prefix>", "<Key>b/1</Key>")
}
