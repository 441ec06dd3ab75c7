package s3api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets/s3api"
)

// TestEveryErrorCodeHasElements compares the table with the codes in the source files of this package and sigv4.
func TestEveryErrorCodeHasElements(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for k := sigv4.Kind(1); k.String() != sigv4.Kind(0).String(); k++ {
		used[k.Code()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			addCodes(t, name, used)
		}
	}
	delete(used, "NotModified") // 304 is sent without a document
	all := s3api.ErrorElements()
	for code := range used {
		if _, ok := all[code]; !ok {
			t.Errorf("%s is not in elementsOf", code)
		}
	}
	for code := range all {
		if !used[code] {
			t.Errorf("%s is in elementsOf, but no error has this code", code)
		}
	}
}

var isCode = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)

// addCodes adds the error codes in a source file: refuse(status, CODE, message), absent(right, CODE, message) and
// Error{Code: CODE}.
func addCodes(t *testing.T, name string, codes map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && isCode.MatchString(strings.Trim(lit.Value, `"`)) {
			codes[strings.Trim(lit.Value, `"`)] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "refuse" || f.Name == "absent") && len(n.Args) == 3 {
				add(n.Args[1])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
				add(n.Value)
			}
		}
		return true
	})
}

// elements collects which elements errors had.
type elements struct {
	*server
	seen map[string]bool // CODE/ELEMENT
}

// expect checks "Element=value" in the document, where * is any value, and "Header: value".
func (s *elements) expect(a answer, status int, code string, all ...string) {
	s.t.Helper()
	a.fails(status, code)
	for _, one := range all {
		if name, value, ok := strings.Cut(one, ": "); ok {
			a.head(name + ": " + value)
			continue
		}
		name, value, _ := strings.Cut(one, "=")
		if got := a.element(name); got == "" || got != value && value != "*" {
			s.t.Errorf("%s: %s is %q, want %q\n%s", a.what, name, got, value, a.body)
		}
		s.seen[code+"/"+name] = true
	}
}

// TestErrorElements provokes an error for each code and element, and checks the value. All other tests check with
// answer.fails that documents contain no elements beyond the table.
func TestErrorElements(t *testing.T) {
	t.Parallel()
	s := &elements{withBucket(t), map[string]bool{}}
	s.do("PUT", "/photos/k", hello).want(200)
	s.signatures()
	s.values()
	s.resources()
	for code, all := range s3api.ErrorElements() {
		for _, name := range all {
			if code != "PreconditionFailed" && !s.seen[code+"/"+name] { // see TestFailedConditions
				t.Errorf("no %s with %s", code, name)
			}
		}
	}
	s.do("GET", "/photos/k", "").want(200).head("X-Amz-Id-2: " + s.do("GET", "/photos/n", "").fails(404, "NoSuchKey").element("HostId"))
}

// signatures provokes signature errors.
func (s *elements) signatures() {
	presigned := func(signer sigv4test.Signer, method, target string, expires time.Duration, at time.Time) answer {
		r := s.request(method, target, "")
		signer.Presign(r, expires, at)
		return s.send(r)
	}
	signed := func(signer sigv4test.Signer, at time.Time, change func(*http.Request)) answer {
		r := s.request("GET", "/photos/k", "")
		signer.Sign(r, sigv4test.Unsigned, at)
		change(r)
		return s.send(r)
	}
	same := func(*http.Request) {}
	forged, abroad, unknown, now := s.main, s.main, s.main, time.Now()
	forged.Secret, abroad.Region, unknown.AccessKeyID = "x", "mars", "NOBODY"
	s.expect(signed(s.main, now, func(r *http.Request) { r.Header.Set("x-amz-acl", "private") }), 403, "AccessDenied", "HeadersNotSigned=x-amz-acl")
	s.expect(presigned(s.main, "GET", "/photos/k", time.Minute, now.Add(-time.Hour)), 403, "AccessDenied", "X-Amz-Expires=60", "Expires=*", "ServerTime=*")
	s.expect(presigned(s.main, "GET", "/photos/k", time.Minute, now.Add(time.Hour)), 403, "AccessDenied", "RequestTime=*", "ServerTime=*")
	s.expect(s.anonymous("OPTIONS", "/main:photos/k", "", "Origin: a", "Access-Control-Request-Method: PUT"), 403, "AccessForbidden", "Method=PUT", "ResourceType=OBJECT")
	s.expect(signed(abroad, now, same), 400, "AuthorizationHeaderMalformed", "Region=us-east-1", "X-Amz-Bucket-Region: us-east-1")
	s.expect(presigned(abroad, "GET", "/photos/k", time.Minute, now), 400, "AuthorizationQueryParametersError", "Region=us-east-1")
	s.expect(signed(s.main, now.Add(-time.Hour), same), 403, "RequestTimeTooSkewed", "RequestTime=*", "ServerTime=*", "MaxAllowedSkewMilliseconds=900000")
	s.expect(signed(forged, now, same), 403, "SignatureDoesNotMatch", "AWSAccessKeyId="+forged.AccessKeyID, "SignatureProvided=*", "StringToSign=*",
		"StringToSignBytes=*", "CanonicalRequest=*", "CanonicalRequestBytes=*")
	s.expect(signed(s.main, now, func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "SignedHeaders=host", "SignedHeaders=content-type;host", 1))
	}), 403, "SignatureDoesNotMatch", "HeadersNotSigned=content-type")
	r := s.request("PUT", "/photos/n", hello)
	s.main.Sign(r, sha256Hex("x"), now)
	s.expect(s.send(r), 400, "XAmzContentSHA256Mismatch", "ClientComputedContentSHA256="+sha256Hex("x"), "S3ComputedContentSHA256="+sha256Hex(hello))

	s.expect(signed(unknown, now, same), 403, "InvalidAccessKeyId", "AWSAccessKeyId=NOBODY")
}

// values provokes errors in headers, parameters and bodies.
func (s *elements) values() {
	raw := func(lines string) answer {
		a := s.dial().put(lines, "x")
		body, err := io.ReadAll(a.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		return answer{s.t, lines, a.StatusCode, a.Header, string(body)}
	}
	id := s.upload("/photos/up")
	small, large := s.part("/photos/up", id, "1", "small"), s.part("/photos/up", id, "2", hello)
	s.expect(s.do("PUT", "/photos/n", hello, "Content-MD5: "+md5Of("x")), 400, "BadDigest", "ExpectedDigest="+md5Of("x"), "CalculatedDigest="+md5Of(hello))
	s.expect(s.do("DELETE", "/photos", ""), 409, "BucketNotEmpty", "BucketName=photos")
	s.expect(s.do("PUT", "/photos", "", "x-amz-bucket-object-lock-enabled: true"), 409, "BucketAlreadyOwnedByYou", "BucketName=photos")
	s.expect(raw("Content-Length: 5368709121\r\n"), 400, "EntityTooLarge", "ProposedSize=5368709121", "MaxSizeAllowed=5368709120")
	s.expect(s.chunked("/photos/n", hello, 5<<30+1, sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 8, Stream: true}), 400, "EntityTooLarge", "ProposedSize=5368709121")
	s.expect(s.complete("/photos/up", id, small+large), 400, "EntityTooSmall", "PartNumber=1", "ETag="+md5Tag("small"), "ProposedSize=5", "MinSizeAllowed="+strconv.Itoa(minPart))
	s.expect(s.send(s.form(map[string]string{"key": "n"}, "small", `["content-length-range", 6, 7]`)), 400, "EntityTooSmall", "ProposedSize=5", "MinSizeAllowed=6")
	s.expect(s.send(s.form(map[string]string{"key": "n"}, "small", `["content-length-range", 0, 4]`)), 400, "EntityTooLarge", "MaxSizeAllowed=4")
	s.expect(s.chunked("/photos/n", hello, int64(len(hello))+1, sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 8, Stream: true}), 400, "IncompleteBody", "NumberBytesExpected=21", "NumberBytesProvided=20")
	s.expect(s.do("GET", "/photos?encoding-type=foo", ""), 400, "InvalidArgument", "ArgumentName=encoding-type", "ArgumentValue=foo")
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-acl: <x>"), 400, "InvalidArgument", "ArgumentName=x-amz-acl", "ArgumentValue=&lt;x&gt;")
	s.expect(s.send(s.form(map[string]string{"key": "n", "x-amz-object-lock-mode": "x"}, hello)), 400, "InvalidArgument", "ArgumentName=*")
	s.expect(s.do("PUT", "/Photos", ""), 400, "InvalidBucketName", "BucketName=Photos")
	s.expect(s.do("PUT", "/photos/n", hello, "Content-MD5: x"), 400, "InvalidDigest", "Content-MD5=x")
	s.expect(s.do("PUT", "/new", "<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucketConfiguration>"), 400, "InvalidLocationConstraint", "LocationConstraint=mars")
	s.expect(s.complete("/photos/up", id, "<Part><PartNumber>3</PartNumber><ETag>x</ETag></Part>"), 400, "InvalidPart", "UploadId="+id, "PartNumber=3", "ETag=x")
	s.expect(s.do("GET", "/photos/k?partNumber=2", ""), 416, "InvalidPartNumber", "PartNumberRequested=2", "ActualPartCount=1")
	s.expect(s.complete("/photos/up", id, large+small), 400, "InvalidPartOrder", "UploadId="+id)
	s.expect(s.do("GET", "/photos/k", "", "Range: bytes=50-"), 416, "InvalidRange", "RangeRequested=bytes=50-", "ActualObjectSize=20", "Content-Range: bytes */20")
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-storage-class: <x>"), 400, "InvalidStorageClass", "StorageClassRequested=&lt;x&gt;")
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-tagging: k%26=v"), 400, "InvalidTag", "TagKey=k&amp;")
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-tagging: k=v%26"), 400, "InvalidTag", "TagKey=k", "TagValue=v&amp;")
	s.expect(s.do("GET", "/photos/k?a=%zz", ""), 400, "InvalidURI", "URI=/photos/k")
	s.expect(s.do("PUT", "/photos/"+strings.Repeat("k", 1025), hello), 400, "KeyTooLongError", "Size=1025", "MaxSizeAllowed=1024")
	s.expect(s.do("PUT", "/photos?tagging", strings.Repeat(" ", 3<<20)), 400, "MaxMessageLengthExceeded", "MaxMessageLengthBytes=*")
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-meta-a: "+strings.Repeat("a", 2100)), 400, "MetadataTooLarge", "Size=2101", "MaxSizeAllowed=2048")
}

// resources requests missing objects and settings, and operations that do not exist.
func (s *elements) resources() {
	s.do("PUT", "/locked", "", "x-amz-bucket-object-lock-enabled: true").want(200)
	s.do("PUT", "/locked/k", hello).want(200)
	marker := s.do("DELETE", "/locked/k", "").want(204).header.Get("X-Amz-Version-Id")
	const absent = "11111111-2222-4333-8444-555555555555"
	s.expect(s.do("POST", "/", ""), 405, "MethodNotAllowed", "Method=POST", "ResourceType=SERVICE", "Allow: GET")
	s.expect(s.do("PATCH", "/photos?tagging", ""), 405, "MethodNotAllowed", "Method=PATCH", "ResourceType=BUCKET", "Allow: DELETE, GET, PUT")
	s.expect(s.do("POST", "/photos/k", ""), 405, "MethodNotAllowed", "ResourceType=OBJECT", "Allow: DELETE, GET, HEAD, PUT")
	s.expect(s.do("GET", "/locked/k?versionId="+marker, ""), 405, "MethodNotAllowed", "ResourceType=DeleteMarker", "Allow: DELETE", "X-Amz-Delete-Marker: true")
	if s.do("GET", "/locked/k?versionId="+marker, "").header.Get("Last-Modified") == "" {
		s.t.Error("GetObject of a delete marker has no Last-Modified")
	}
	s.expect(s.do("PUT", "/photos?acl", ""), 400, "MissingSecurityHeader", "MissingHeaderName=x-amz-acl")
	s.expect(s.do("GET", "/absent/k", ""), 404, "NoSuchBucket", "BucketName=absent")
	s.expect(s.do("PUT", "/photos/n", "", "x-amz-copy-source: absent/k"), 404, "NoSuchBucket", "BucketName=absent")
	for parameter, code := range map[string]string{
		"policy": "NoSuchBucketPolicy", "cors": "NoSuchCORSConfiguration", "lifecycle": "NoSuchLifecycleConfiguration", "tagging": "NoSuchTagSet",
		"publicAccessBlock": "NoSuchPublicAccessBlockConfiguration", "website": "NoSuchWebsiteConfiguration", "object-lock": "ObjectLockConfigurationNotFoundError",
		"ownershipControls": "OwnershipControlsNotFoundError", "replication": "ReplicationConfigurationNotFoundError", "encryption": "ServerSideEncryptionConfigurationNotFoundError",
	} {
		s.expect(s.do("GET", "/photos?"+parameter, ""), 404, code, "BucketName=photos")
	}
	s.expect(s.do("GET", "/photos/a%26%0A", ""), 404, "NoSuchKey", "Key=a&amp;&#xa;")
	s.expect(s.do("PUT", "/photos/n", "", "x-amz-copy-source: photos/absent"), 404, "NoSuchKey", "Key=absent")
	s.do("PUT", "/locked/unlocked", hello).want(200)
	s.expect(s.do("GET", "/locked/unlocked?retention", ""), 404, "NoSuchObjectLockConfiguration", "Key=unlocked")
	s.expect(s.do("PUT", "/photos/up?partNumber=1&uploadId="+absent, hello), 404, "NoSuchUpload", "UploadId="+absent)
	s.expect(s.do("GET", "/locked/k?versionId="+absent, ""), 404, "NoSuchVersion", "Key=k", "VersionId="+absent)
	s.expect(s.do("PUT", "/photos/n", hello, "x-amz-grant-read: id=1"), 501, "NotImplemented", "Header=x-amz-grant-read")
	s.expect(s.do("PUT", "/photos/n", hello, "Range: "+strings.Repeat("a", 9000)), 400, "RequestHeaderSectionTooLarge", "MaxSizeAllowed=8192")
}

// TestFailedConditions checks that PreconditionFailed names the header whose condition failed, as s3fs reads it, for each
// operation and header.
func TestFailedConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	id := s.upload("/photos/k")
	part := s.part("/photos/k", id, "1", hello)
	const past, future = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"
	tag := `"` + md5Tag(hello) + `"`
	put := func(h ...string) answer { return s.do("PUT", "/photos/k", "other", h...) }
	copied := func(h ...string) answer {
		return s.do("PUT", "/photos/copy", "", append(h, "x-amz-copy-source: photos/k")...)
	}
	const from = "x-amz-copy-source-"
	for name, c := range map[string]struct {
		do      func(h ...string) answer
		headers []string
		want    string
	}{
		"put":              {put, []string{"If-None-Match: *"}, "If-None-Match"},
		"put, another tag": {put, []string{`If-Match: "x"`}, "If-Match"},
		"put, both":        {put, []string{"If-Match: " + tag, "If-None-Match: *"}, "If-None-Match"},
		"form": {func(h ...string) answer {
			return s.send(s.form(map[string]string{"key": "k", "if-none-match": "*"}, hello))
		}, nil, "If-None-Match"},
		"copy, destination": {func(h ...string) answer {
			return s.do("PUT", "/photos/k", "", append(h, "x-amz-copy-source: photos/k", "x-amz-metadata-directive: REPLACE")...)
		}, []string{"If-None-Match: *"}, "If-None-Match"},
		"new upload":               {func(h ...string) answer { return s.do("POST", "/photos/k?uploads", "", h...) }, []string{"If-None-Match: *"}, "If-None-Match"},
		"complete":                 {func(h ...string) answer { return s.complete("/photos/k", id, part, h...) }, []string{"If-None-Match: *"}, "If-None-Match"},
		"complete, another tag":    {func(h ...string) answer { return s.complete("/photos/k", id, part, h...) }, []string{`If-Match: "x"`}, "If-Match"},
		"get":                      {func(h ...string) answer { return s.do("GET", "/photos/k", "", h...) }, []string{`If-Match: "x"`}, "If-Match"},
		"get, date":                {func(h ...string) answer { return s.do("GET", "/photos/k", "", h...) }, []string{"If-Unmodified-Since: " + past}, "If-Unmodified-Since"},
		"get, tag and date":        {func(h ...string) answer { return s.do("GET", "/photos/k", "", h...) }, []string{`If-Match: "x"`, "If-Modified-Since: " + future}, "If-Match"},
		"delete":                   {func(h ...string) answer { return s.do("DELETE", "/photos/k", "", h...) }, []string{`If-Match: "x"`}, "If-Match"},
		"delete, same tag":         {func(h ...string) answer { return s.do("DELETE", "/photos/k", "", h...) }, []string{"If-None-Match: " + tag}, "If-None-Match"},
		"delete, modified since":   {func(h ...string) answer { return s.do("DELETE", "/photos/k", "", h...) }, []string{"If-Modified-Since: " + future}, "If-Modified-Since"},
		"delete, unmodified since": {func(h ...string) answer { return s.do("DELETE", "/photos/k", "", h...) }, []string{"If-Unmodified-Since: " + past}, "If-Unmodified-Since"},
		"source":                   {copied, []string{from + `if-match: "x"`}, from + "If-Match"},
		"source, same tag":         {copied, []string{from + "if-none-match: " + tag}, from + "If-None-Match"},
		"source, modified":         {copied, []string{from + "if-modified-since: " + future}, from + "If-Modified-Since"},
		"source, unmodified":       {copied, []string{from + "if-unmodified-since: " + past}, from + "If-Unmodified-Since"},
		"source, the second":       {copied, []string{from + "if-match: " + tag, from + "if-none-match: " + tag}, from + "If-None-Match"},
		"part of a source": {func(h ...string) answer {
			return s.do("PUT", "/photos/k?partNumber=2&uploadId="+id, "", append(h, "x-amz-copy-source: photos/k")...)
		}, []string{from + `if-match: "x"`}, from + "If-Match"},
	} {
		if got := c.do(c.headers...).fails(412, "PreconditionFailed").element("Condition"); got != c.want {
			t.Errorf("%s: Condition %q, want %q", name, got, c.want)
		}
	}
}

// TestErrorsKeepSecrets checks that errors do not repeat secrets that a client sent, and that repeated values are
// truncated and well-formed.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const secret = "c2VjcmV0"
	for _, name := range []string{"x-amz-server-side-encryption-customer-key", "x-amz-copy-source-server-side-encryption-customer-key", "x-amz-security-token"} {
		if a := s.anonymous("PUT", "/main:photos/k", hello, name+": "+secret, name+": "+secret); a.status < 400 || strings.Contains(a.body, secret) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, query := range []string{"encoding-type=%00%1f%ef%bf%bf%ff", "encoding-type=" + strings.Repeat("%26", 4000)} {
		if a := s.do("GET", "/photos?"+query, "").fails(400, "InvalidArgument"); len(a.body) > 6<<10 {
			t.Errorf("%d bytes", len(a.body))
		}
	}
}

// TestTagsInHeaders sends malformed tags with every operation that stores tags from a header.
func TestTagsInHeaders(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	walked := 0
	for _, r := range s3api.Routes() {
		takes := slices.Contains(r.Keys, "s3:RequestObjectTag") && r.OfObject && (r.Parameter == "" || r.Parameter == "uploads")
		if !takes {
			continue
		}
		for _, more := range [][]string{nil, {"x-amz-copy-source: photos/k", "x-amz-tagging-directive: REPLACE"}} {
			if more != nil && r.Method != http.MethodPut {
				continue
			}
			walked++
			for _, bad := range []string{"a=1&a=2", "=v", "=", "k=%zz", "%zz=v", "k=%FF", "%FF=v", "a=1;b=2"} {
				body := map[bool]string{true: hello}[more == nil && r.Method == http.MethodPut]
				a := s.do(r.Method, targetOf(r), body, append(slices.Clone(more), "x-amz-tagging: "+bad)...).fails(400, "InvalidArgument")
				if a.element("ArgumentName") != "x-amz-tagging" || a.element("ArgumentValue") != strings.ReplaceAll(bad, "&", "&amp;") {
					t.Errorf("%s with %s: %s", routeName(r), bad, a.body)
				}
			}
		}
	}
	if walked != 3 {
		t.Errorf("%d operations, want PutObject, CopyObject and CreateMultipartUpload", walked)
	}
	s.do("GET", "/photos/k?tagging", "").want(200).hasNot("<Tag>")
}

// s3Operations are the operations in the Amazon S3 API Reference that this server knows or refuses.
const s3Operations = `AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateMultipartUpload DeleteBucket
	DeleteBucketAnalyticsConfiguration DeleteBucketCors DeleteBucketEncryption DeleteBucketIntelligentTieringConfiguration
	DeleteBucketInventoryConfiguration DeleteBucketLifecycle DeleteBucketMetricsConfiguration DeleteBucketOwnershipControls DeleteBucketPolicy
	DeleteBucketReplication DeleteBucketTagging DeleteBucketWebsite DeleteObject DeleteObjects DeleteObjectTagging DeletePublicAccessBlock
	GetBucketAccelerateConfiguration GetBucketAcl GetBucketAnalyticsConfiguration GetBucketCors GetBucketEncryption
	GetBucketIntelligentTieringConfiguration GetBucketInventoryConfiguration GetBucketLifecycleConfiguration GetBucketLocation GetBucketLogging
	GetBucketMetricsConfiguration GetBucketNotificationConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus
	GetBucketReplication GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetObject GetObjectAcl GetObjectAttributes
	GetObjectLegalHold GetObjectLockConfiguration GetObjectRetention GetObjectTagging GetObjectTorrent GetPublicAccessBlock HeadBucket HeadObject
	ListBuckets ListMultipartUploads ListObjects ListObjectVersions ListParts PostObject PutBucketAccelerateConfiguration PutBucketAcl
	PutBucketAnalyticsConfiguration PutBucketCors PutBucketEncryption PutBucketIntelligentTieringConfiguration PutBucketInventoryConfiguration
	PutBucketLifecycleConfiguration PutBucketLogging PutBucketMetricsConfiguration PutBucketNotificationConfiguration PutBucketOwnershipControls
	PutBucketPolicy PutBucketReplication PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite PutObject PutObjectAcl
	PutObjectLegalHold PutObjectLockConfiguration PutObjectRetention PutObjectTagging PutPublicAccessBlock RenameObject RestoreObject SelectObjectContent
	UploadPart UploadPartCopy GetBucketAbac PutBucketAbac CreateSession UpdateObjectEncryption
	CreateBucketMetadataConfiguration GetBucketMetadataConfiguration DeleteBucketMetadataConfiguration
	CreateBucketMetadataTableConfiguration GetBucketMetadataTableConfiguration DeleteBucketMetadataTableConfiguration
	UpdateBucketMetadataInventoryTableConfiguration UpdateBucketMetadataJournalTableConfiguration`

// TestErrorsNameOperations sends every method with every parameter. A refused feature is named as in S3's documentation.
func TestErrorsNameOperations(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	known := strings.Fields(s3Operations)
	for _, name := range s3api.Operations {
		if name != "other" && !slices.Contains(known, name) {
			t.Errorf("%s is not an operation of S3", name)
		}
	}
	refused := map[string]bool{}
	for _, ofObject := range []bool{false, true} {
		for _, parameter := range s3api.Parameters(ofObject) {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				target := map[bool]string{false: "/photos?", true: "/photos/k?"}[ofObject] + parameter
				a := s.do(method, target, "")
				if a.status != http.StatusNotImplemented {
					continue
				}
				a.fails(501, "NotImplemented")
				_, name, _ := strings.Cut(a.element("Message"), "not implemented: ")
				if isOperation(method, parameter, ofObject) && !slices.Contains(known, name) {
					t.Errorf("%s %s: %s", method, target, a.element("Message"))
				}
				refused[name] = true
			}
			s.do("PUT", "/photos", "").want(200) // an earlier request may delete it
		}
	}
	for _, name := range []string{"PutBucketEncryption", "PutBucketWebsite", "PutBucketReplication", "PutBucketInventoryConfiguration", "CreateSession", "RestoreObject", "GetObjectTorrent"} {
		if !refused[name] {
			t.Errorf("%s is not refused by name", name)
		}
	}
}

// isOperation reports whether it is one of S3's operations.
func isOperation(method, parameter string, ofObject bool) bool {
	of := map[string]string{
		"restore": "POST", "select": "POST", "torrent": "GET", "session": "GET", "renameObject": "PUT", "metadataInventoryTable": "PUT",
		"metadataJournalTable": "PUT", "metadataConfiguration": "GET POST DELETE", "metadataTable": "GET POST DELETE",
	}[parameter]
	if ofObject && parameter == "encryption" {
		of = "PUT"
	}
	return strings.Contains(of, method) || of == "" && method != "POST"
}
