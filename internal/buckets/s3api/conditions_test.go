package s3api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets/s3api"
	"holdfast/internal/web"
)

// malformedTags are If-Match and If-None-Match values that are no condition.
var malformedTags = []string{"", " ", "\t", ",", " , ,", `"abc`, `abc"`, `"`, `"a"b"`, `a b`, `"a" "b"`, "W/", `*, "a"`, `"a", *`, "*, *", `"a", "b`, "\x7f"}

// malformedDates are values of If-Modified-Since and If-Unmodified-Since.
var malformedDates = []string{"", " ", "0", "now", "Sun, 06 Nov 1994 08:49:37", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT"}

// TestMalformedConditions sends malformed conditions with every request that applies them. A write that ignored one
// would be unconditional.
func TestMalformedConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	id := s.upload("/photos/k")
	part := s.part("/photos/k", id, "1", "in parts")
	complete := "<CompleteMultipartUpload>" + part + "</CompleteMultipartUpload>"
	for _, w := range []struct {
		method, target, body string
		headers              []string
		names                string
	}{
		{"PUT", "/photos/k", "new", nil, "If-Match If-None-Match"},
		{"PUT", "/photos/k", "", []string{"x-amz-copy-source: photos/k"}, "If-Match If-None-Match x-amz-copy-source-if-match x-amz-copy-source-if-none-match x-amz-copy-source-if-modified-since x-amz-copy-source-if-unmodified-since"},
		{"PUT", "/photos/k?partNumber=2&uploadId=" + id, "", []string{"x-amz-copy-source: photos/k"}, "x-amz-copy-source-if-match x-amz-copy-source-if-none-match x-amz-copy-source-if-modified-since x-amz-copy-source-if-unmodified-since"},
		{"POST", "/photos/k?uploads", "", nil, "If-Match If-None-Match"},
		{"POST", "/photos/k?uploadId=" + id, complete, nil, "If-Match If-None-Match"},
		{"DELETE", "/photos/k", "", nil, "If-Match If-None-Match If-Modified-Since If-Unmodified-Since"},
	} {
		for name := range strings.FieldsSeq(w.names) {
			values := malformedTags
			if strings.HasSuffix(strings.ToLower(name), "-since") {
				values = malformedDates
			}
			for _, v := range values {
				r := s.request(w.method, w.target, w.body, append(w.headers, name+": x")...)
				r.Header.Set(name, v)
				if v == "\x7f" { // net/http sends no such header
					r.Header.Set(name, "\xff\" ")
				}
				s.main.Sign(r, sha256Hex(w.body), time.Now())
				if a := s.send(r); a.status != 400 || a.element("Code") != "InvalidArgument" {
					t.Errorf("%s with %s: %q is %d, want 400 InvalidArgument\n%s", a.what, name, v, a.status, a.body)
				}
			}
		}
	}
	for _, v := range malformedTags[:len(malformedTags)-1] {
		list := "<Delete><Object><Key>k</Key><ETag>" + strings.ReplaceAll(v, `"`, "&quot;") + "</ETag></Object></Delete>"
		s.do("POST", "/photos?delete", list).want(200).has("<Code>InvalidArgument</Code>")
	}
	s.do("GET", "/photos/k", "").want(200).is(hello)
	for _, v := range malformedTags[:len(malformedTags)-1] {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			s.do("GET", "/photos/k", "", name+": "+v).fails(400, "InvalidArgument")
		}
	}
}

// TestUnappliedConditions sends every condition header with every write that does not apply it. The answer must name the
// header.
func TestUnappliedConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	applied := map[string][]string{
		"PUT object ": {"If-Match", "If-None-Match"}, "POST object uploads": {"If-Match", "If-None-Match"}, "POST object uploadId": {"If-Match", "If-None-Match"},
		"POST bucket ":   {"If-Match", "If-None-Match"},
		"DELETE object ": {"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"},
	}
	for _, r := range s3api.Routes() {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			continue
		}
		for _, name := range append(slices.Clone(web.ConditionHeaders), "If-Unknown") {
			if !slices.Contains(applied[routeName(r)], name) {
				s.refusesCondition(r, name)
			}
		}
	}
	s.do("GET", "/photos/k", "").want(200).is(hello)
}

func routeName(r s3api.Route) string {
	if r.OfObject {
		return r.Method + " object " + r.Parameter
	}
	return r.Method + " bucket " + r.Parameter
}

// refusesCondition sends a condition header with a write that does not apply it.
func (s *server) refusesCondition(r s3api.Route, name string) {
	s.t.Helper()
	for _, value := range []string{"", `"x"`, "*", time.Now().UTC().Format(http.TimeFormat)} {
		a := s.do(r.Method, targetOf(r), "", name+": "+value)
		if routeName(r) == "POST bucket " {
			a = s.send(s.form(map[string]string{"key": "k", name: value}, "new"))
		}
		if name == "If-Unknown" && a.status == 400 {
			continue // package web refuses it
		}
		if a.status != 501 || a.element("Code") != "NotImplemented" || name != "If-Unknown" && !strings.Contains(a.body, strings.ToLower(name)) {
			s.t.Errorf("%s with %s: %q is %d\n%s", a.what, name, value, a.status, a.body)
		}
	}
}

// TestEmptyGuards checks that headers which protect a write are not dropped if they are empty.
func TestEmptyGuards(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	id := s.upload("/photos/k")
	part := s.part("/photos/k", id, "1", "in parts")
	s.do("PUT", "/photos/k", "new", "x-amz-expected-bucket-owner:").fails(403, "AccessDenied")
	s.do("PUT", "/photos/k", "", "x-amz-copy-source: photos/k", "x-amz-metadata-directive: REPLACE", "x-amz-source-expected-bucket-owner:").fails(403, "AccessDenied")
	s.do("PUT", "/photos/k", "new", "x-amz-copy-source:").fails(400, "InvalidArgument")
	s.do("PUT", "/photos/k?partNumber=1&uploadId="+id, "", "x-amz-copy-source: photos/k", "x-amz-copy-source-range:").fails(400, "InvalidArgument")
	s.complete("/photos/k", id, part, "x-amz-mp-object-size:").want(400)
	s.do("GET", "/photos/k", "").want(200).is(hello)
	s.complete("/photos/k", id, part, "x-amz-mp-object-size: 8").want(200)
}

// TestOnceByPolicy checks that no condition which the store ignores passes a policy that requires If-None-Match.
func TestOnceByPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	id := s.upload("/photos/k")
	part := s.part("/photos/k", id, "1", "in parts")
	s.policy(`{` + fromAll + `, "Action": "s3:PutObject", "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}}`)
	for _, header := range []string{"", "If-None-Match:", "If-None-Match: ,", `If-None-Match: "`, "If-None-Match: *", `If-None-Match: "x"`, "If-Match: *"} {
		var headers []string
		if header != "" {
			headers = append(headers, header)
		}
		for _, a := range []answer{
			s.do("PUT", "/photos/k", "new", headers...), s.complete("/photos/k", id, part, headers...),
			s.do("PUT", "/photos/k", "", append(headers, "x-amz-copy-source: photos/k", "x-amz-metadata-directive: REPLACE")...),
		} {
			if a.status < 400 {
				t.Errorf("%s with %q: %d", a.what, header, a.status)
			}
		}
		s.do("GET", "/photos/k", "").want(200).is(hello)
	}
	for _, value := range []string{"", " ", ",", "*", `"x"`} {
		if a := s.send(s.form(map[string]string{"key": "k", "if-none-match": value}, "new")); a.status < 400 {
			t.Errorf("form with if-none-match %q: %d", value, a.status)
		}
	}
	s.do("GET", "/photos/k", "").want(200).is(hello)
	s.send(s.form(map[string]string{"key": "k2", "if-none-match": "*"}, "new")).want(204)
	s.do("PUT", "/photos/k3", "new", "If-None-Match: *").want(200)
}
