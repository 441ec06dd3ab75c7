package s3api_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/s3api"
)

// link2 returns a request with a link by account main, signed with Signature Version 2 for an hour.
func (s *server) link2(method, target, body string, headers ...string) *http.Request {
	s.t.Helper()
	return s.link2By(s.main, method, target, body, headers...)
}

func (s *server) link2By(by sigv4test.Signer, method, target, body string, headers ...string) *http.Request {
	s.t.Helper()
	r := s.request(method, target, body, headers...)
	bucket, _ := strings.CutSuffix(r.Host, "."+domain)
	if bucket == r.Host {
		bucket = ""
	}
	by.PresignVersion2(r, bucket, time.Now().Add(time.Hour))
	return r
}

func TestVersion2Links(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	s.send(s.link2("PUT", "/photos/a%20+%C3%BC", hello, "Content-Type: text/plain", "x-amz-meta-a: b  c", "Content-MD5: "+md5Of(hello))).want(200)
	s.send(s.link2("HEAD", "/photos/a%20+%C3%BC", "")).want(200).head("Content-Type: text/plain", "X-Amz-Meta-A: b  c")
	s.send(s.link2("GET", "/a%20+%C3%BC", "", "Host: photos."+domain)).want(200).is(hello)
	s.send(s.link2("GET", "/main:photos/a%20+%C3%BC", "")).want(200).is(hello)
	s.send(s.link2("GET", "/photos", "")).want(200).has("<Key>a +ü</Key>")
	first := s.do("HEAD", "/photos/a%20+%C3%BC", "").header.Get("X-Amz-Version-Id")
	s.do("PUT", "/photos/a%20+%C3%BC", "second").want(200)
	s.send(s.link2("GET", "/photos/a%20+%C3%BC?versionId="+first+"&response-content-type=text%2Fhtml", "")).want(200).is(hello).head("Content-Type: text/html")
	s.send(s.link2("DELETE", "/photos/a%20+%C3%BC", "")).want(204)

	// boto3 writes headers to the query; the server then reads them there.
	s.send(s.link2("PUT", "/photos/copy?x-amz-copy-source=%2Fphotos%2Fa", "")).fails(403, "SignatureDoesNotMatch")
	r := s.link2("PUT", "/photos/meta", hello, "x-amz-meta-a: 1")
	r.URL.RawQuery += "&x-amz-meta-a=1"
	r.Header.Del("X-Amz-Meta-A")
	s.send(r).want(200)
	s.do("HEAD", "/photos/meta", "").want(200).head("X-Amz-Meta-A: 1")

	// The signature covers the body's hash if the client states one.
	s.send(s.link2("PUT", "/photos/hash", hello, "x-amz-content-sha256: "+sha256Hex(hello))).want(200)
	s.send(s.link2("PUT", "/photos/hash", hello, "x-amz-content-sha256: "+sha256Hex("x"))).fails(400, "XAmzContentSHA256Mismatch")
	s.send(s.link2By(s.other, "GET", "/main:photos/hash", "")).fails(403, "AccessDenied")
	r = s.link2("GET", "/photos/hash", "")
	r.Method = "DELETE"
	s.send(r).fails(403, "SignatureDoesNotMatch").has("<StringToSign>DELETE", "<AWSAccessKeyId>"+s.main.AccessKeyID)

	s.s3.Verifier.Version2 = false
	s.send(s.link2("GET", "/photos/hash", "")).fails(400, "InvalidRequest").has("switched off")
	s.send(s.form2(s.main, map[string]string{"key": "f"}, hello)).fails(400, "InvalidRequest").has("switched off")
}

// form2 returns a form upload with Signature Version 2, with a condition for each field.
func (s *server) form2(by sigv4test.Signer, fields map[string]string, file string) *http.Request {
	s.t.Helper()
	conditions := []string{`{"bucket": "photos"}`}
	for name, value := range fields {
		conditions = append(conditions, `{"`+name+`": "`+value+`"}`)
	}
	signed := maps.Clone(fields)
	by.SignFormVersion2(signed, `{"expiration": "`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`", "conditions": [`+strings.Join(conditions, ", ")+`]}`)
	return s.upload2(signed, file)
}

func (s *server) upload2(fields map[string]string, file string) *http.Request {
	s.t.Helper()
	const boundary = "version2"
	var body strings.Builder
	for name, value := range fields {
		body.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n")
	}
	body.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + file + "\r\n--" + boundary + "--\r\n")
	return s.request("POST", "/photos", body.String(), "Content-Type: multipart/form-data; boundary="+boundary)
}

func TestVersion2Forms(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.send(s.form2(s.main, map[string]string{"key": "f", "Content-Type": "text/plain"}, hello)).want(204)
	s.do("GET", "/photos/f", "").want(200).is(hello).head("Content-Type: text/plain")
	fields := map[string]string{"key": "g"}
	s.main.SignFormVersion2(fields, `{"expiration": "2100-01-01T00:00:00Z", "conditions": [{"bucket": "photos"}, {"key": "g"}, ["content-length-range", 0, 3]]}`)
	s.send(s.upload2(fields, hello)).fails(400, "EntityTooLarge")
	fields["x-amz-meta-a"] = "1"
	s.send(s.upload2(fields, "abc")).fails(403, "AccessDenied")
	delete(fields, "x-amz-meta-a")
	fields["signature"] = "AAAA"
	s.send(s.upload2(fields, "abc")).fails(403, "SignatureDoesNotMatch")
	s.do("GET", "/photos/g", "").fails(404, "NoSuchKey")
}

// TestVersion2Host checks that a link means the same bucket under every host, because the signature does not cover it.
func TestVersion2Host(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", "secret").want(200)
	// Account other claims the plain name photos.main for a bucket. main may read it, and makes a link to it.
	s.as(s.other, "PUT", "/photos.main", "").want(200)
	s.as(s.other, "PUT", "/photos.main/k", "public").want(200)
	s.as(s.other, "PUT", "/photos.main?acl", "", "x-amz-acl: public-read").want(200)
	r := s.link2("GET", "/photos.main/k", "")
	s.send(r).want(200).is("public")
	r.URL.Opaque, r.Host = "/k", "photos.main."+domain
	s.send(r).want(200).is("public")
	// The host photos.main means main's bucket photos, if the signature covers the host.
	s.do("GET", "/k", "", "Host: photos.main."+domain).want(200).is("secret")
}

// TestVersion2OfLimitedKeys checks that a key with any limit needs permission for Signature Version 2.
func TestVersion2OfLimitedKeys(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	for name, l := range map[string]buckets.KeyLimits{
		"networks": {Networks: networks("127.0.0.0/8", "::1/128")}, "rights": {Rights: []buckets.Right{buckets.RightRead, buckets.RightWrite}},
		"buckets": {Buckets: []string{"photos"}}, "prefix": {Prefix: "k"},
	} {
		send := func(l buckets.KeyLimits) [2]answer {
			by := s.limited(l)
			return [2]answer{s.send(s.link2By(by, "GET", "/photos/k", "")), s.send(s.form2(by, map[string]string{"key": "k"}, hello))}
		}
		for _, a := range send(l) {
			if a.status != 403 || !strings.Contains(a.body, "sign with version 4") {
				t.Errorf("%s: %s: status %d\n%s", name, a.what, a.status, a.body)
			}
		}
		l.Version2 = true
		for _, a := range send(l) {
			if a.status >= 300 {
				t.Errorf("%s, with permission: %s: status %d\n%s", name, a.what, a.status, a.body)
			}
		}
	}
	expiring := s.keyWith(buckets.KeyTerms{Expires: s.s3.Service.Now().Add(time.Hour)})
	s.send(s.link2By(expiring, "GET", "/photos/k", "")).want(200)
}

func TestVersion2InPolicies(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	read := func() answer { return s.send(s.link2("GET", "/photos/k", "")) }
	form := func() answer { return s.send(s.form2(s.main, map[string]string{"key": "k"}, hello)) }
	deny := func(condition string) {
		t.Helper()
		s.policy(`{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*", "Condition": {` + condition + `}}`)
	}
	for condition, denied := range map[string][3]bool{ // a link, a form, and a request with Version 4
		`"StringEquals": {"s3:signatureversion": "AWS"}`:                  {true, true, false},
		`"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}`:     {false, false, true},
		`"StringEquals": {"s3:authType": "REST-QUERY-STRING"}`:            {true, false, false},
		`"StringEquals": {"s3:authType": "POST"}`:                         {false, true, false},
		`"StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}`: {true, true, false},
		`"NumericGreaterThan": {"s3:signatureAge": "600000"}`:             {true, true, false}, // the age is unknown
		`"NumericGreaterThanIfExists": {"s3:signatureAge": "600000"}`:     {true, true, false},
	} {
		deny(condition)
		for i, send := range []func() answer{read, form, func() answer { return s.do("GET", "/photos/k", "") }} {
			if a := send(); (a.status == 403) != denied[i] {
				t.Errorf("%s: %s: status %d\n%s", condition, a.what, a.status, a.body)
			}
		}
	}
}

// literals returns the text literals in packages that read requests.
func literals(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, folder := range []string{".", "../../auth/sigv4"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					all[text] = true
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(all))
}

var (
	// A parameter begins in lower case, or is a header that a link's query may contain.
	isParameter  = regexp.MustCompile(`^([a-z][A-Za-z]*(-[a-z]+)*|X-Amz-[A-Za-z0-9-]+)$`)
	isAmazon     = regexp.MustCompile(`^[Xx]-[Aa]mz-[A-Za-z0-9-]*[A-Za-z0-9]$`)
	signedByLink = regexp.MustCompile(`^(versionId|response-(cache-control|content-(disposition|encoding|language|type)|expires))$`)
)

// linkWalk sends links whose signature is or is not verified.
type linkWalk struct {
	*server
	verified            atomic.Bool
	parameters, headers []string // which the code names
}

// passes reports whether the request's signature is verified, even if the request fails later.
func (w *linkWalk) passes(r *http.Request) bool {
	w.t.Helper()
	w.verified.Store(false)
	w.send(r)
	return w.verified.Load()
}

func newLinkWalk(t *testing.T) *linkWalk {
	t.Helper()
	w := &linkWalk{server: withBucket(t)}
	w.s3.Observe = func(_ string, _ *http.Request, err error, _ time.Duration) {
		_, refused := errors.AsType[*sigv4.Error](err)
		w.verified.Store(!refused)
	}
	for _, text := range literals(t) {
		if isParameter.MatchString(text) {
			w.parameters = append(w.parameters, text)
		}
		if isAmazon.MatchString(text) {
			w.headers = append(w.headers, http.CanonicalHeaderKey(text))
		}
	}
	slices.Sort(w.headers)
	w.headers = slices.Compact(w.headers)
	for _, name := range []string{"acl", "partNumber", "prefix", "uploadId", "uploads", "versionId", "response-expires", "max-keys", "analytics", "x-amz-acl"} {
		if !slices.Contains(w.parameters, name) {
			t.Fatalf("the parameter %s is not found in the code", name)
		}
	}
	for _, name := range []string{"X-Amz-Acl", "X-Amz-Copy-Source", "X-Amz-Tagging", "X-Amz-Content-Sha256", "X-Amz-Checksum-Algorithm"} {
		if !slices.Contains(w.headers, name) {
			t.Fatalf("the header %s is not found in the code", name)
		}
	}
	return w
}

// TestVersion2SignsEverything adds each query parameter and each x-amz-* header that the code names to a valid link for
// each route. The link is refused for its signature, unless the signature covers the addition.
func TestVersion2SignsEverything(t *testing.T) {
	t.Parallel()
	w := newLinkWalk(t)
	for _, r := range s3api.Routes() {
		target := targetOf(r)
		if r.Parameter == "" {
			w.addToLinks(r.Method, target)
			continue
		}
		if w.passes(w.link2(r.Method, target+"=1", "")) || w.passes(w.link2(r.Method, target, "")) {
			t.Errorf("%s has a link", routeName(r))
		}
	}
	w.addToLinks("GET", "/")
}

func (w *linkWalk) addToLinks(method, target string) {
	w.t.Helper()
	if !w.passes(w.link2(method, target, "")) {
		w.t.Errorf("%s %s has no link", method, target)
	}
	for _, name := range w.parameters {
		later := w.link2(method, target, "")
		later.URL.RawQuery += "&" + name + "=null"
		if w.passes(later) {
			w.t.Errorf("%s %s: the parameter %s is added", method, target, name)
		}
		if signed := w.passes(w.link2(method, target+"?"+name+"=null", "")); signed != signedByLink.MatchString(name) {
			w.t.Errorf("%s %s: a link with the parameter %s is accepted: %v", method, target, name, signed)
		}
	}
	for _, name := range w.headers {
		later := w.link2(method, target, "")
		later.Header.Set(name, "1")
		if w.passes(later) {
			w.t.Errorf("%s %s: the header %s is added", method, target, name)
		}
	}
	for _, name := range []string{"X-Amz-Acl", "X-Amz-Copy-Source", "X-Amz-Meta-A", "X-Amz-Mfa"} {
		if !w.passes(w.link2(method, target, "", name+": 1")) {
			w.t.Errorf("%s %s: the signed header %s is refused", method, target, name)
		}
	}
}
