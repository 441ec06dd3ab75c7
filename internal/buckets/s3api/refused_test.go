package s3api_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

const page = "https://app.test"

type refusal struct {
	name    string
	status  int
	code    string // "" if the response has no body
	request func(*server) *http.Request
}

func signed(method, target, body string, headers ...string) func(*server) *http.Request {
	return func(s *server) *http.Request {
		r := s.request(method, target, body, headers...)
		s.main.Sign(r, sha256Hex(body), time.Now())
		return r
	}
}

func anonymous(method, target, body string, headers ...string) func(*server) *http.Request {
	return func(s *server) *http.Request { return s.request(method, target, body, headers...) }
}

func forged(of func(*server) *http.Request, change func(*http.Request)) func(*server) *http.Request {
	return func(s *server) *http.Request {
		r := of(s)
		change(r)
		return r
	}
}

func signedBy(method, target, body string, change func(*server, *sigv4test.Signer), at time.Duration) func(*server) *http.Request {
	return func(s *server) *http.Request {
		r, signer := s.request(method, target, body), s.main
		change(s, &signer)
		signer.Sign(r, sha256Hex(body), time.Now().Add(at))
		return r
	}
}

// presigned signs at the offset from now, for one minute.
func presigned(method, target, body string, at time.Duration) func(*server) *http.Request {
	return func(s *server) *http.Request {
		r := s.request(method, target, body)
		s.main.Presign(r, time.Minute, time.Now().Add(at))
		return r
	}
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func query(from, to string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, from, to) }
}

func refusals() []refusal {
	return []refusal{
		// Signatures
		{"expired presigned PUT", 403, "AccessDenied", presigned("PUT", "/photos/k", hello, -2*time.Minute)},
		{"expired presigned GET", 403, "AccessDenied", presigned("GET", "/photos/k", "", -2*time.Minute)},
		{"presigned HEAD that is not valid yet", 403, "", presigned("HEAD", "/photos/k", "", time.Hour)},
		{"forged presigned PUT", 403, "SignatureDoesNotMatch", forged(presigned("PUT", "/photos/k", hello, 0), query("Expires=60", "Expires=61"))},
		{"malformed presigned URL", 400, "AuthorizationQueryParametersError", forged(presigned("PUT", "/photos/k", hello, 0), query("Expires=60", "Expires=x"))},
		{"presigned PUT of an unknown key", 403, "InvalidAccessKeyId", forged(presigned("PUT", "/photos/k", hello, 0), query("Credential=HF", "Credential=XX"))},
		{"Signature Version 2", 403, "AccessDenied", anonymous("PUT", "/photos/k?AWSAccessKeyId=a&Expires=9999999999&Signature=b", hello)},
		{"session token", 400, "InvalidToken", anonymous("GET", "/photos/k?X-Amz-Security-Token=a&X-Amz-Signature=b", "")},
		{"wrong secret", 403, "SignatureDoesNotMatch", signedBy("PUT", "/photos/k", hello, func(_ *server, by *sigv4test.Signer) { by.Secret = "guess" }, 0)},
		{"unknown key", 403, "InvalidAccessKeyId", signedBy("GET", "/photos/k", "", func(_ *server, by *sigv4test.Signer) { by.AccessKeyID = "HFAAAAAAAAAAAAAAAAAA" }, 0)},
		{"wrong region", 400, "AuthorizationHeaderMalformed", signedBy("PUT", "/photos/k", hello, func(_ *server, by *sigv4test.Signer) { by.Region = "mars" }, 0)},
		{"wrong clock", 403, "RequestTimeTooSkewed", signedBy("DELETE", "/photos/k", "", func(*server, *sigv4test.Signer) {}, -time.Hour)},
		{"key of another account", 403, "AccessDenied", signedBy("PUT", "/main:photos/k", hello, func(s *server, by *sigv4test.Signer) { *by = s.other }, 0)},
		{"malformed Authorization", 400, "AuthorizationHeaderMalformed", forged(signed("PUT", "/photos/k", hello), set("Authorization", "AWS4-HMAC-SHA256 Credential=a"))},
		{"another Authorization", 400, "InvalidRequest", forged(signed("PUT", "/photos/k", hello), set("Authorization", "Bearer a"))},
		{"no hash", 400, "InvalidRequest", forged(signed("PUT", "/photos/k", hello), func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") })},

		// Unsigned
		{"anonymous PUT", 403, "AccessDenied", anonymous("PUT", "/photos/k", hello)},
		{"anonymous GET", 403, "AccessDenied", anonymous("GET", "/photos/k", "")},
		{"anonymous HEAD", 403, "", anonymous("HEAD", "/main:photos/k", "")},
		{"anonymous DELETE", 403, "AccessDenied", anonymous("DELETE", "/photos/k", "")},
		{"anonymous list", 403, "AccessDenied", anonymous("GET", "/photos?list-type=2", "")},
		{"anonymous GET by host", 403, "AccessDenied", anonymous("GET", "/k", "", "Host: photos.main.s3.test")},
		{"anonymous CreateBucket", 403, "AccessDenied", anonymous("PUT", "/photos", "")},
		{"form without fields", 400, "InvalidArgument", anonymous("POST", "/photos", "--x--\r\n", "Content-Type: multipart/form-data; boundary=x")},
		{"broken form", 400, "InvalidArgument", anonymous("POST", "/photos", "broken", "Content-Type: multipart/form-data; boundary=x")},
		{"forged form", 403, "SignatureDoesNotMatch", func(s *server) *http.Request {
			other := *s
			other.main.Secret = "guess"
			return other.form(map[string]string{"key": "f"}, hello)
		}},
		{"form outside of its policy", 403, "AccessDenied", func(s *server) *http.Request {
			return s.form(map[string]string{"key": "${filename}"}, hello, `["starts-with", "$key", "user/"]`)
		}},

		// Targets
		{"no object", 404, "NoSuchKey", signed("GET", "/photos/absent", "")},
		{"no upload", 404, "NoSuchUpload", signed("GET", "/photos/k?uploadId=a", "")},
		{"no policy", 404, "NoSuchBucketPolicy", signed("GET", "/photos?policy", "")},
		{"method of objects", 405, "MethodNotAllowed", signed("POST", "/photos/k", "")},
		{"method of buckets", 405, "MethodNotAllowed", signed("POST", "/photos?location", "")},
		{"bucket has objects", 409, "BucketNotEmpty", signed("DELETE", "/photos", "")},
		{"subresource", 501, "NotImplemented", signed("GET", "/photos/k?torrent", "")},
		{"header", 501, "NotImplemented", signed("PUT", "/photos/k", hello, "x-amz-server-side-encryption: AES256")},
		{"malformed query", 400, "InvalidURI", signed("GET", "/photos/k?a=%zz", "")},
		{"key with U+0000", 400, "InvalidArgument", signed("GET", "/photos/%00", "")},
		{"long key", 400, "KeyTooLongError", signed("GET", "/photos/"+strings.Repeat("k", 1025), "")},
		{"header twice", 400, "InvalidArgument", forged(signed("PUT", "/photos/k", hello), func(r *http.Request) { r.Header["X-Amz-Acl"] = []string{"private", "private"} })},
		{"large headers", 400, "RequestHeaderSectionTooLarge", signed("PUT", "/photos/k", hello, "Cache-Control: "+strings.Repeat("x", 8<<10))},
		{"large metadata", 400, "MetadataTooLarge", signed("PUT", "/photos/k", hello, "x-amz-meta-a: "+strings.Repeat("x", 2049))},
		{"expected owner", 403, "AccessDenied", signed("PUT", "/photos/k", hello, "x-amz-expected-bucket-owner: 111122223333")},
		{"version", 400, "InvalidArgument", signed("GET", "/photos/k?versionId=1", "")},
		{"condition of a read", 412, "PreconditionFailed", signed("GET", "/photos/k", "", `If-Match: "other"`)},
		{"not modified", 304, "", signed("GET", "/photos/k", "", "If-None-Match: *")},
		{"condition of a write", 412, "PreconditionFailed", signed("PUT", "/photos/k", hello, "If-None-Match: *")},
		{"range", 416, "InvalidRange", signed("GET", "/photos/k", "", "Range: bytes=99-")},
		{"source of a copy", 404, "NoSuchKey", signed("PUT", "/photos/l", "", "x-amz-copy-source: photos/absent")},

		// Bodies
		{"wrong MD5", 400, "BadDigest", signed("PUT", "/photos/k", hello, "Content-MD5: "+md5Of("x"))},
		{"wrong hash", 400, "XAmzContentSHA256Mismatch", func(s *server) *http.Request {
			r := s.request("PUT", "/photos/k", hello)
			s.main.Sign(r, sha256Hex("x"), time.Now())
			return r
		}},
		{"no length of chunks", 411, "MissingContentLength", func(s *server) *http.Request {
			r := s.request("PUT", "/photos/k", hello)
			s.main.Sign(r, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", time.Now())
			return r
		}},
		{"too large", 400, "EntityTooLarge", func(s *server) *http.Request {
			r := s.request("PUT", "/photos/k", hello, "x-amz-decoded-content-length: 5368709121")
			s.main.Sign(r, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", time.Now())
			return r
		}},
		{"malformed document", 400, "MalformedXML", signed("POST", "/photos?delete", "<a>")},
		{"too small", 400, "EntityTooSmall", func(s *server) *http.Request {
			return s.form(map[string]string{"key": "k"}, hello, `["content-length-range", 100, 200]`)
		}},
	}
}

// failing is a store that returns err, if set. It reports and delays reads of the object "held".
type failing struct {
	buckets.Backend
	err      atomic.Pointer[error]
	reads    atomic.Int64
	held     chan struct{}
	released chan struct{}
}

func (f *failing) fail() error {
	f.reads.Add(1)
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *failing) Bucket(ctx context.Context, owner buckets.AccountID, name string) (buckets.Bucket, error) {
	if err := f.fail(); err != nil {
		return buckets.Bucket{}, err
	}
	return f.Backend.Bucket(ctx, owner, name)
}

func (f *failing) NameHolder(ctx context.Context, name string) (buckets.AccountID, error) {
	if err := f.fail(); err != nil {
		return "", err
	}
	return f.Backend.NameHolder(ctx, name)
}

func (f *failing) BucketsWithCORS(ctx context.Context, name string, limit int) ([]buckets.Bucket, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.Backend.BucketsWithCORS(ctx, name, limit)
}

func (f *failing) Find(ctx context.Context, owner buckets.AccountID, bucket, name string) (buckets.Bucket, buckets.Object, error) {
	if err := f.fail(); err != nil {
		return buckets.Bucket{}, buckets.Object{}, err
	}
	if name == "held" {
		f.held <- struct{}{}
		<-f.released
	}
	return f.Backend.Find(ctx, owner, bucket, name)
}

func withFailing(t *testing.T) (*server, *failing) {
	t.Helper()
	s := withBucket(t, slog.New(slog.DiscardHandler))
	s.do("PUT", "/photos/k", hello).want(200)
	f := &failing{Backend: s.options.Backend, held: make(chan struct{}), released: make(chan struct{})}
	s.options.Backend = f
	s.reopen()
	return s, f
}

func (s *server) allow(origin string, methods ...string) {
	s.t.Helper()
	rule := "<CORSConfiguration><CORSRule><AllowedOrigin>" + origin + "</AllowedOrigin>"
	for _, m := range methods {
		rule += "<AllowedMethod>" + m + "</AllowedMethod>"
	}
	s.do("PUT", "/photos?cors", rule+"<ExposeHeader>x-amz-request-id</ExposeHeader></CORSRule></CORSConfiguration>").want(200)
}

func (s *server) refused(name string, status int, code string, r *http.Request, allowed string) {
	s.t.Helper()
	r.Header.Set("Origin", page)
	a := s.send(r)
	if a.status != status || code != "" && a.element("Code") != code {
		s.t.Errorf("%s: %d %s, want %d %s\n%s", name, a.status, a.element("Code"), status, code, a.body)
	}
	exposed := ""
	if allowed != "" {
		exposed = "x-amz-request-id"
	}
	if got := strings.Join(a.header["Access-Control-Allow-Origin"], "|"); got != allowed || a.header.Get("Access-Control-Expose-Headers") != exposed {
		s.t.Errorf("%s: %d %s allows the origin %q, want %q: %v", name, a.status, a.element("Code"), got, allowed, a.header)
	}
	if n := len(a.header["Vary"]); n > 1 {
		s.t.Errorf("%s: %d headers Vary", name, n)
	}
}

// TestCORSOfRefusals checks that a page can read errors only if the bucket's rule allows its origin and method.
func TestCORSOfRefusals(t *testing.T) {
	t.Parallel()
	s, f := withFailing(t)
	all := []string{"GET", "HEAD", "PUT", "POST", "DELETE"}
	internal, unavailable := errcode.New(errcode.Internal, "damaged"), errcode.New(errcode.Unavailable, "stopped")
	for _, c := range []struct {
		name    string
		rule    func()
		allowed string
	}{
		{"no rule", func() {}, ""},
		{"its origin", func() { s.allow(page, all...) }, page},
		{"another origin", func() { s.allow("https://other.test", all...) }, ""},
		{"any origin", func() { s.allow("*", all...) }, "*"},
		{"another method", func() { s.allow("*", "HEAD") }, ""},
		{"a pattern", func() { s.allow("https://*.test", all...) }, page},
		{"a deleted rule", func() { s.do("DELETE", "/photos?cors", "").want(204) }, ""},
	} {
		c.rule()
		for _, r := range refusals() {
			request := r.request(s)
			if c.name == "another method" && request.Method == "HEAD" {
				continue
			}
			s.refused(c.name+": "+r.name, r.status, r.code, request, c.allowed)
		}
		// While the database fails, the last known rules apply.
		s.do("GET", "/photos/k", "", "Origin: "+page).want(200)
		s.anonymous("OPTIONS", "/photos/k", "", "Origin: "+page, "Access-Control-Request-Method: PUT")
		for _, stopped := range []struct {
			err    error
			status int
			code   string
		}{{internal, 500, "InternalError"}, {unavailable, 503, "ServiceUnavailable"}} {
			f.err.Store(&stopped.err)
			s.refused(c.name+": database", stopped.status, stopped.code, signed("GET", "/photos/k", "")(s), c.allowed)
			s.refused(c.name+": database", stopped.status, stopped.code, signed("PUT", "/photos/k", hello)(s), c.allowed)
			s.refused(c.name+": database", stopped.status, stopped.code, anonymous("GET", "/photos/k", "")(s), c.allowed)
			s.refused(c.name+": database", 403, "AccessDenied", presigned("PUT", "/photos/k", hello, -time.Hour)(s), c.allowed)
			f.err.Store(nil)
		}
	}
	s.allow("*", all...)
	for name, r := range map[string]func(*server) *http.Request{
		"bucket that does not exist": anonymous("GET", "/absent/k", ""), "bucket of another account": anonymous("GET", "/other:photos/k", ""),
		"name that no bucket has": anonymous("GET", "/%ff/k", ""), "account that does not exist": presigned("GET", "/absent:photos/k", "", -time.Hour),
	} {
		s.refused(name, 403, "AccessDenied", r(s), "")
	}
	s.refused("no bucket", 403, "AccessDenied", anonymous("GET", "/", "")(s), "")
	// Another account's bucket with the same name changes nothing for the first.
	s.as(s.other, "PUT", "/photos", "").want(200)
	s.refused("two buckets", 403, "AccessDenied", anonymous("PUT", "/photos/k", hello)(s), "*")
	s.refused("two buckets", 403, "AccessDenied", presigned("PUT", "/photos/k", hello, -time.Hour)(s), "*")
	s.refused("bucket of the other", 403, "AccessDenied", func(s *server) *http.Request {
		r := s.request("PUT", "/photos/k", hello)
		s.other.Presign(r, time.Minute, time.Now().Add(-time.Hour))
		return r
	}(s), "")
}

// TestCORSOfRefusalsWithoutSlot checks that a refused request queries the database only with a slot, and gets the CORS
// headers in any case.
func TestCORSOfRefusalsWithoutSlot(t *testing.T) {
	t.Parallel()
	s, f := withFailing(t)
	s.allow(page, "GET", "PUT")
	gate := web.NewGate(1, time.Millisecond)
	s.url = webtest.Serve(t, s.handler, web.Options{Gate: gate, Log: slog.New(slog.DiscardHandler)}).URL
	s.refused("with a slot", 403, "AccessDenied", forged(signed("PUT", "/photos/k", hello), set("X-Amz-Meta-A", "b"))(s), page)
	s.do("GET", "/photos/k", "", "Origin: "+page).want(200)
	ended := make(chan answer)
	go func() { ended <- s.send(signed("GET", "/photos/held", "")(s)) }()
	<-f.held
	before := f.reads.Load()
	s.refused("no slot", 503, "SlowDown", signed("GET", "/photos/k", "")(s), page)
	s.refused("no slot for the rule", 403, "SignatureDoesNotMatch", signedBy("PUT", "/photos/k", hello, func(_ *server, by *sigv4test.Signer) { by.Secret = "guess" }, 0)(s), page)
	s.refused("no slot for the rule", 403, "AccessDenied", presigned("PUT", "/photos/k", hello, -time.Hour)(s), page)
	if n := f.reads.Load() - before; n != 0 {
		t.Errorf("%d reads without a slot", n)
	}
	close(f.released)
	(<-ended).want(404)
	if used := gate.Stats().Active; used != 0 {
		t.Errorf("%d slots in use", used)
	}
}

// TestVaryOfBucketWithRules checks that caches do not reuse a response for another origin.
func TestVaryOfBucketWithRules(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	s.do("GET", "/photos/k", "").want(200).head("Vary:")
	s.allow(page, "GET")
	const vary = "Vary: Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
	s.do("GET", "/photos/k", "").want(200).head(vary, "Access-Control-Allow-Origin:")
	s.do("GET", "/photos/k", "", "Origin: https://other.test").want(200).head(vary, "Access-Control-Allow-Origin:")
	s.do("GET", "/photos/k", "", "Origin: "+page).want(200).head(vary, "Access-Control-Allow-Origin: "+page)
	s.anonymous("OPTIONS", "/photos/k", "", "Origin: "+page, "Access-Control-Request-Method: GET").want(200).head(vary)
}
