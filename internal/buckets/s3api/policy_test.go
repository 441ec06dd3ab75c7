//test:unraced the race detector makes it ten times as slow

package s3api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/buckets/s3api"
)

func (s *server) policy(statements ...string) string {
	s.t.Helper()
	document := `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ", ") + `]}`
	s.do("PUT", "/photos?policy", document).want(204)
	return document
}

const (
	inPhotos = `"Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]`
	toOther  = `"Effect": "Allow", "Principal": {"AWS": "other"}, ` + inPhotos
	toAll    = `"Effect": "Allow", "Principal": "*", ` + inPhotos
	fromAll  = `"Effect": "Deny", "Principal": "*", ` + inPhotos
)

func TestBucketPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/photos?policy", "").fails(404, "NoSuchBucketPolicy")
	s.do("DELETE", "/photos?policy", "").want(204)
	document := s.policy(`{"Sid": "a", ` + toAll + `, "Action": "s3:GetObject"}`)
	s.do("GET", "/photos?policy", "").want(200).is(document).head("Content-Type: application/json")
	s.do("HEAD", "/photos?policy", "").want(200).is("")
	s.do("GET", "/photos?policyStatus", "").want(200).has("<IsPublic>true</IsPublic>")
	s.policy(`{` + toOther + `, "Action": "s3:GetObject"}`)
	s.do("GET", "/photos?policyStatus", "").want(200).has("<IsPublic>false</IsPublic>")
	for _, bad := range []string{"", "{}", "x", `{"Statement": []}`, `{"Statement": {` + toAll + `, "Action": "s3:Brew"}}`,
		`{"Statement": {"Effect": "Allow", "Principal": {"AWS": "absent"}, "Action": "s3:*", ` + inPhotos + `}}`,
		`{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::other/*"}}`,
		`{"Statement": {` + toAll + `, "Action": "s3:GetObject"}, "Id": "` + strings.Repeat("x", policy.MaxSize) + `"}`,
	} {
		s.do("PUT", "/photos?policy", bad).fails(400, "MalformedPolicy")
	}
	s.do("PUT", "/photos?policy", strings.Repeat(" ", 65<<10)).fails(400, "MaxMessageLengthExceeded")
	s.do("DELETE", "/photos?policy", "").want(204)
	s.do("GET", "/photos?policy", "").fails(404, "NoSuchBucketPolicy")
}

// TestEveryOperationNeedsAnAction calls all operations with three policies: one allows the other account all actions
// except the operation's, one allows only these, one denies them to the owner.
func TestEveryOperationNeedsAnAction(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	quoted := func(all []policy.Action) string {
		var names []string
		for _, a := range all {
			names = append(names, `"`+string(a)+`"`)
		}
		return strings.Join(names, ", ")
	}
	for _, r := range s3api.Routes() {
		target := "/photos"
		if r.OfObject {
			target += "/k"
		}
		if r.Parameter != "" {
			target += "?" + r.Parameter
		}
		what := r.Method + " " + target
		if len(r.Actions) == 0 {
			t.Errorf("%s needs no action", what)
			continue
		}
		if r.Method == http.MethodPut && target == "/photos" || r.Method == http.MethodPost && target == "/photos" {
			continue // policies do not affect CreateBucket; for forms see TestFormsByPolicy
		}
		if slices.ContainsFunc(r.Actions, func(a policy.Action) bool { return !slices.Contains(policy.KnownActions(), a) }) {
			t.Errorf("%s: no policy can name %v", what, r.Actions)
			continue
		}
		body := ""
		switch what {
		case "POST /photos?delete":
			body = "<Delete><Object><Key>k</Key></Object></Delete>"
		case "PUT /photos?acl", "PUT /photos/k?acl":
			body = "<AccessControlPolicy><AccessControlList></AccessControlList></AccessControlPolicy>"
		case "PUT /photos/k?tagging":
			body = "<Tagging><TagSet></TagSet></Tagging>"
		case "PUT /photos/k?retention":
			body = "<Retention></Retention>"
		case "PUT /photos/k?legal-hold":
			body = "<LegalHold><Status>ON</Status></LegalHold>"
		}
		refused := func(by sigv4test.Signer) bool {
			a := s.as(by, r.Method, target, body)
			return a.status == http.StatusForbidden || strings.Contains(a.body, "<Code>AccessDenied<")
		}
		s.do("PUT", "/photos", "").want(200)
		s.policy(`{` + toOther + `, "NotAction": [` + quoted(r.Actions) + `]}`)
		s.do("PUT", "/photos/k", hello).want(200)
		if !refused(s.other) {
			t.Errorf("%s is allowed without %v", what, r.Actions)
		}
		s.policy(`{` + fromAll + `, "Action": [` + quoted(r.Actions) + `]}`)
		ofPolicy := r.Parameter == "policy"
		if got := refused(s.main); got == ofPolicy {
			t.Errorf("%s by the owner, to whom it is denied: refused is %v", what, got)
		}
		s.do("DELETE", "/photos?policy", "").want(204)
		s.do("PUT", "/photos/k", hello).want(200)
		s.policy(`{` + toOther + `, "Action": [` + quoted(r.Actions) + `]}`)
		if refused(s.other) {
			t.Errorf("%s is refused with %v", what, r.Actions)
		}
		if s.do("HEAD", "/photos", "").status == http.StatusOK {
			s.do("DELETE", "/photos?policy", "").want(204)
		}
	}
}

func TestSharedBucket(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/in/a", hello).want(200)
	s.do("PUT", "/photos/out", hello).want(200)
	s.as(s.other, "GET", "/photos/in/a", "").fails(404, "NoSuchBucket")
	s.policy(`{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::other:root"}, "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::photos/in/*"}`)
	for _, bucket := range []string{"/photos", "/main:photos"} {
		s.as(s.other, "GET", bucket+"/in/a", "").want(200).is(hello)
		s.as(s.other, "GET", bucket+"/out", "").fails(403, "AccessDenied")
		s.as(s.other, "GET", bucket+"/in/absent", "").fails(403, "AccessDenied") // other may not list
		s.as(s.other, "PUT", bucket+"/in/b", "by other").want(200)
		s.as(s.other, "PUT", bucket+"/out", "by other").fails(403, "AccessDenied")
		s.as(s.other, "DELETE", bucket+"/in/a", "").fails(403, "AccessDenied")
		s.as(s.other, "GET", bucket, "").fails(403, "AccessDenied")
		s.as(s.other, "GET", bucket+"?policy", "").fails(403, "AccessDenied")
		s.anonymous("GET", bucket+"/in/a", "").fails(403, "AccessDenied")
	}
	s.do("GET", "/photos/in/b", "").want(200).is("by other")
	s.as(s.other, "GET", "/in/a", "", "Host: photos.s3.test").want(200)
	s.as(s.other, "GET", "/", "").want(200).hasNot("photos")
	s.as(s.other, "PUT", "/photos/in/c", "x", "x-amz-tagging: a=b").fails(403, "AccessDenied")
	s.as(s.other, "GET", "/photos/in/a", "", "x-amz-expected-bucket-owner: "+string(s.bucket("photos").Owner)).want(200)
	s.as(s.other, "GET", "/photos/in/a", "", "x-amz-expected-bucket-owner: "+buckets.NewUUID()).fails(403, "AccessDenied")

	s.as(s.other, "PUT", "/mine", "").want(200)
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: photos/in/a").want(200)
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: photos/out").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/photos/in/copy", "", "x-amz-copy-source: mine/k").want(200)
	s.as(s.other, "PUT", "/photos/copy", "", "x-amz-copy-source: mine/k").fails(403, "AccessDenied")
	s.do("PUT", "/photos/in/tagged", hello, "x-amz-tagging: a=b").want(200)
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: photos/in/tagged").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/mine/k", "", "x-amz-copy-source: photos/in/tagged", "x-amz-tagging-directive: REPLACE").want(200)

	id := s.as(s.other, "POST", "/photos/in/parts?uploads", "").want(200).element("UploadId")
	tag := s.as(s.other, "PUT", "/photos/in/parts?partNumber=1&uploadId="+id, "part").want(200).header.Get("Etag")
	s.as(s.other, "GET", "/photos/in/parts?uploadId="+id, "").fails(403, "AccessDenied")
	s.as(s.other, "POST", "/photos/in/parts?uploadId="+id, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+tag+"</ETag></Part></CompleteMultipartUpload>").want(200)

	// The account's own access keys keep their limits.
	reads := s.keyOf("other", buckets.KeyTerms{Limits: buckets.KeyLimits{Rights: []buckets.Right{buckets.RightRead}}})
	s.as(reads, "GET", "/photos/in/a", "").want(200)
	s.as(reads, "PUT", "/photos/in/d", hello).fails(403, "AccessDenied")
	s.as(s.keyOf("other", buckets.KeyTerms{Limits: buckets.KeyLimits{Buckets: []string{"mine"}}}), "GET", "/photos/in/a", "").fails(403, "AccessDenied")

	// The account's own bucket takes precedence.
	s.as(s.other, "PUT", "/photos", "").want(200)
	s.as(s.other, "GET", "/photos/in/a", "").fails(404, "NoSuchKey")
	s.as(s.other, "GET", "/main:photos/in/a", "").want(200)
	s.as(s.other, "DELETE", "/photos", "").want(204)

	s.do("DELETE", "/photos?policy", "").want(204)
	s.as(s.other, "GET", "/photos/in/a", "").fails(404, "NoSuchBucket")
	s.as(s.other, "GET", "/main:photos/in/a", "").fails(403, "AccessDenied")
}

func (s *server) keyOf(account string, terms buckets.KeyTerms) sigv4test.Signer {
	s.t.Helper()
	a, err := s.options.Backend.Account(s.t.Context(), account)
	if err != nil {
		s.t.Fatal(err)
	}
	id, secret, err := s.keys.Create(s.t.Context(), a.ID, terms)
	if err != nil {
		s.t.Fatal(err)
	}
	return sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: region}
}

func TestAnonymousByPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/a", hello).want(200)
	s.policy(`{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::photos/*"}`)
	s.anonymous("GET", "/photos/a", "").want(200).is(hello)
	s.anonymous("GET", "/photos/absent", "").fails(403, "AccessDenied")
	s.anonymous("GET", "/photos", "").fails(403, "AccessDenied")
	s.anonymous("PUT", "/photos/b", "from anybody").want(200)
	s.do("GET", "/photos/b", "").want(200).is("from anybody")
	s.anonymous("POST", "/photos/m?uploads", "").want(200)
	s.anonymous("POST", "/photos?delete", "<Delete><Object><Key>b</Key></Object></Delete>", "Content-Md5: "+md5Of("<Delete><Object><Key>b</Key></Object></Delete>")).want(200).has("<Deleted><Key>b<")
	s.anonymous("DELETE", "/photos/a", "").want(204)
	s.do("GET", "/photos/a", "").fails(404, "NoSuchKey")
	s.anonymous("PUT", "/photos?policy", "{}").fails(403, "AccessDenied")
	// A key's limits do not affect access that everybody has.
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightRead}}), "PUT", "/photos/b", hello).want(200)
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightRead}}), "GET", "/photos", "").fails(403, "AccessDenied")
	s.policy(`{` + toAll + `, "Action": "s3:ListBucket"}`)
	s.anonymous("GET", "/photos?list-type=2", "").want(200).has("<Key>b<")
	s.anonymous("GET", "/photos/b", "").fails(403, "AccessDenied")
	s.policy(`{` + toAll + `, "Action": "s3:*"}`)
	s.anonymous("GET", "/photos?policy", "").fails(405, "MethodNotAllowed")
	s.anonymous("PUT", "/photos?policy", "{}").fails(405, "MethodNotAllowed")
	s.as(s.other, "DELETE", "/photos?policy", "").fails(405, "MethodNotAllowed")
	s.anonymous("GET", "/photos?acl", "").want(200).hasNot("<DisplayName></DisplayName>")
	s.anonymous("PUT", "/photos/b?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>").want(200)
}

// A policy cannot keep the owner from changing the policy.
func TestDeniedToOwner(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/keep/a", hello).want(200)
	s.do("PUT", "/photos/b", hello).want(200)
	s.do("PUT", "/photos/b", hello).want(200) // finds the bucket by name
	s.policy(`{"Effect": "Deny", "Principal": "*", "Action": ["s3:DeleteObject", "s3:PutObject"], "Resource": "arn:aws:s3:::photos/keep/*"}`)
	s.do("PUT", "/photos/keep/a", "x").fails(403, "AccessDenied")
	s.do("DELETE", "/photos/keep/a", "").fails(403, "AccessDenied")
	s.do("POST", "/photos?delete", "<Delete><Object><Key>keep/a</Key></Object><Object><Key>b</Key></Object></Delete>").want(200).
		has("<Deleted><Key>b<", "<Error><Key>keep/a</Key><Code>AccessDenied<")
	s.do("GET", "/photos/keep/a", "").want(200).is(hello)
	s.do("PUT", "/photos/keep/c", "", "x-amz-copy-source: photos/keep/a").fails(403, "AccessDenied")
	s.policy(`{` + fromAll + `, "Action": "s3:*"}`)
	s.do("GET", "/photos/keep/a", "").fails(403, "AccessDenied")
	s.do("GET", "/photos", "").fails(403, "AccessDenied")
	s.do("DELETE", "/photos", "").fails(403, "AccessDenied")
	s.do("GET", "/photos?policy", "").want(200)
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightRead}}), "DELETE", "/photos?policy", "").fails(403, "AccessDenied")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").fails(403, "AccessDenied")
	s.do("DELETE", "/photos?policy", "").want(204)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.policy(`{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/keep/*"}`)
	s.anonymous("GET", "/photos/keep/a", "").fails(403, "AccessDenied") // although the canned ACL allows it
	s.do("PUT", "/photos/c", hello).want(200)
	s.anonymous("GET", "/photos/c", "").want(200)
	s.anonymous("GET", "/photos", "").want(200)
}

func TestPolicyConditions(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/home/a", hello, "x-amz-tagging: class=public").want(200)
	s.do("PUT", "/photos/home/b", hello).want(200)
	when := func(action, condition string) string {
		return `{` + toOther + `, "Action": "` + action + `", "Condition": {` + condition + `}}`
	}
	other := func(method, target, body string, headers ...string) answer {
		return s.as(s.other, method, target, body, headers...)
	}
	s.policy(when("s3:ListBucket", `"StringEquals": {"s3:prefix": "home/", "s3:delimiter": "/"}, "NumericLessThanEquals": {"s3:max-keys": "10"}`))
	other("GET", "/photos?prefix=home/&delimiter=/&max-keys=10", "").want(200)
	for _, query := range []string{"", "?prefix=home/&delimiter=/", "?prefix=home/&delimiter=/&max-keys=11", "?prefix=home&delimiter=/&max-keys=1", "?prefix=&prefix=home/&delimiter=/&max-keys=1"} {
		other("GET", "/photos"+query, "").fails(403, "AccessDenied")
	}
	s.policy(when("s3:GetObject", `"StringEquals": {"s3:ExistingObjectTag/class": "public"}`))
	other("GET", "/photos/home/a", "").want(200)
	other("GET", "/photos/home/b", "").fails(403, "AccessDenied")
	s.policy(`{"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "public"}}}`)
	s.do("POST", "/photos?delete", "<Delete><Object><Key>home/a</Key></Object><Object><Key>absent</Key></Object></Delete>").want(200).has("<Deleted><Key>absent<", "<Error><Key>home/a</Key>")
	conditionsOfVersions(s, when, other)
	s.policy(when("s3:PutObject*", `"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}, "StringEquals": {"s3:RequestObjectTag/a": "1"}`))
	other("PUT", "/photos/k", hello, "x-amz-tagging: a=1").want(200)
	other("PUT", "/photos/k", hello, "x-amz-tagging: a=1&c=2").fails(403, "AccessDenied")
	other("PUT", "/photos/k", hello).fails(403, "AccessDenied")
	tag := func(k, v string) string { return "<Tag><Key>" + k + "</Key><Value>" + v + "</Value></Tag>" }
	other("PUT", "/photos/k?tagging", "<Tagging><TagSet>"+tag("a", "1")+tag("b", "2")+"</TagSet></Tagging>").want(200)
	other("PUT", "/photos/k?tagging", "<Tagging><TagSet>"+tag("a", "1")+tag("c", "2")+"</TagSet></Tagging>", "x-amz-tagging: a=1").fails(403, "AccessDenied")
	s.policy(when("s3:GetObject", `"IpAddress": {"aws:SourceIp": ["192.0.2.0/24"]}`))
	other("GET", "/photos/home/a", "").fails(403, "AccessDenied")
	s.policy(when("s3:GetObject", `"IpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1"]}, "NotIpAddress": {"aws:SourceIp": "192.0.2.1"}`))
	other("GET", "/photos/home/a", "").want(200)
	s.policy(`{`+fromAll+`, "Action": "s3:*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}`, `{`+toOther+`, "Action": "s3:*"}`)
	other("GET", "/photos/home/a", "").fails(403, "AccessDenied")
	s.policy(when("s3:GetObject", `"StringLike": {"aws:Referer": "https://app.test/*"}`))
	other("GET", "/photos/home/a", "", "Referer: https://app.test/page").want(200)
	other("GET", "/photos/home/a", "", "Referer: https://evil.test/").fails(403, "AccessDenied")
	s.policy(when("s3:GetObject", `"StringEquals": {"s3:authType": "REST-QUERY-STRING"}, "NumericLessThan": {"s3:signatureAge": 600000}`))
	other("GET", "/photos/home/a", "").fails(403, "AccessDenied")
	r := s.request("GET", "/photos/home/a", "")
	s.other.Presign(r, time.Hour, time.Now())
	s.send(r).want(200)
	r = s.request("GET", "/photos/home/a", "")
	s.other.Presign(r, time.Hour, time.Now().Add(-11*time.Minute))
	s.send(r).fails(403, "AccessDenied")
	s.policy(when("s3:PutObject", `"StringEquals": {"s3:x-amz-copy-source": "photos/home/b"}`), when("s3:GetObject", `"StringEquals": {"aws:PrincipalType": "Account"}`))
	other("PUT", "/photos/copy", "", "x-amz-copy-source: /photos/home%2Fb").want(200)
	other("PUT", "/photos/copy", "", "x-amz-copy-source: photos/copy").fails(403, "AccessDenied")
	other("PUT", "/photos/copy", hello).fails(403, "AccessDenied")
	s.policy(`{`+toOther+`, "Action": "s3:PutObject"}`, `{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}}`)
	other("PUT", "/photos/once", hello).fails(403, "AccessDenied")
	other("PUT", "/photos/once", hello, "If-None-Match: *").want(200)
	other("POST", "/photos/once?uploads", "").want(200)
	s.policy(when("s3:GetObject", `"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}`))
	other("GET", "/photos/home/a", "").fails(403, "AccessDenied")
	s.policy(when("s3:GetObject", `"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}`))
	other("GET", "/photos/home/a", "").want(200)
	s.policy(when("s3:GetObjectVersion", `"StringEquals": {"s3:VersionId": "null"}`))
	other("GET", "/photos/home/a?versionId=null", "").want(200)
	other("GET", "/photos/home/a", "").fails(403, "AccessDenied")
}

// conditionsOfVersions checks that a condition on tags applies to the requested version.
func conditionsOfVersions(s *server, when func(action, condition string) string, other func(method, target, body string, headers ...string) answer) {
	s.t.Helper()
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	private := s.do("PUT", "/photos/v", "private", "x-amz-tagging: class=private").want(200).version()
	public := s.do("PUT", "/photos/v", "public", "x-amz-tagging: class=public").want(200).version()
	s.policy(when("s3:GetObject*", `"StringEquals": {"s3:ExistingObjectTag/class": "public"}`), when("s3:PutObject", `"Null": {"s3:ExistingObjectTag/class": "true"}`))
	other("GET", "/photos/v", "").want(200).is("public")
	other("GET", "/photos/v?versionId="+public, "").want(200).is("public")
	for _, target := range []string{"/photos/v?versionId=" + private, "/photos/v?tagging&versionId=" + private, "/photos/v?versionId=x", "/photos/v?versionId=" + string(buckets.LastVersion)} {
		other("GET", target, "").fails(403, "AccessDenied")
	}
	other("PUT", "/photos/copy", "", "x-amz-copy-source: photos/v?versionId="+private).fails(403, "AccessDenied")
	other("PUT", "/photos/copy", "", "x-amz-copy-source: photos/v?versionId="+public, "x-amz-tagging-directive: REPLACE").want(200)
	s.policy(`{"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject*", "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "private"}}}`)
	one := func(id string) string {
		return "<Delete><Object><Key>v</Key><VersionId>" + id + "</VersionId></Object></Delete>"
	}
	s.do("POST", "/photos?delete", one(private)).want(200).has("<Error><Key>v</Key>", "AccessDenied")
	s.do("DELETE", "/photos/v?versionId="+private, "").fails(403, "AccessDenied")
	s.do("POST", "/photos?delete", one(public)).want(200).has("<Deleted><Key>v</Key>")
	s.do("DELETE", "/photos/v", "").fails(403, "AccessDenied")
	s.policy(`{` + fromAll + `, "Action": "s3:DeleteObjectVersion", "Condition": {"StringEquals": {"s3:VersionId": "` + private + `"}}}`)
	s.do("POST", "/photos?delete", one(private)).want(200).has("<Error><Key>v</Key>", "AccessDenied")
	s.do("DELETE", "/photos/v", "").want(204)
	s.do("PUT", "/photos?versioning", versioningOff).want(200)
}

func TestFormsByPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.policy(`{"Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/in/*", "Condition": {"StringEquals": {"s3:authType": "POST", "aws:UserAgent": "tests"}}}`,
		`{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/never/*"}`)
	form := func(by sigv4test.Signer, fields map[string]string) answer {
		signs := *s
		signs.main = by
		r := signs.form(fields, hello)
		r.Header.Set("User-Agent", "tests")
		return s.send(r)
	}
	form(s.other, map[string]string{"key": "in/k"}).want(204)
	form(s.other, map[string]string{"key": "k"}).fails(403, "AccessDenied")
	form(s.other, map[string]string{"key": "in/k", "tagging": "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"}).fails(403, "AccessDenied")
	form(s.main, map[string]string{"key": "k"}).want(204)
	form(s.main, map[string]string{"key": "never/k"}).fails(403, "AccessDenied")
}

// TestPayloadByPolicy checks that s3:x-amz-content-sha256 is how the signature covers the body, whatever else the client
// states.
func TestPayloadByPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	hash := sha256Hex(hello)
	presigned := func(target string, headers ...string) answer {
		r := s.request("PUT", target, hello, headers...)
		s.main.Presign(r, time.Hour, time.Now())
		return s.send(r)
	}
	unsigned := func() answer {
		r := s.request("PUT", "/photos/k", hello)
		s.main.Sign(r, sigv4.UnsignedPayload, time.Now())
		return s.send(r)
	}
	chunks := sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 8 << 10}
	s.policy(`{` + fromAll + `, "Action": "s3:PutObject", "Condition": {"StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}}`)
	s.do("PUT", "/photos/k", hello).want(200)
	s.chunked("/photos/k", hello, int64(len(hello)), chunks).want(200)
	presigned("/photos/k?X-Amz-Content-Sha256=" + hash).want(200)
	for name, a := range map[string]answer{
		"header": unsigned(), "presigned": presigned("/photos/k"), "presigned, unsigned": presigned("/photos/k?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"),
		"form": s.send(s.form(map[string]string{"key": "k"}, hello)), "form with a field": s.send(s.form(map[string]string{"key": "k", "x-amz-content-sha256": hash}, hello)),
	} {
		if a.status != http.StatusForbidden {
			t.Errorf("%s: %d\n%s", name, a.status, a.body)
		}
	}
	presigned("/photos/k?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", "x-amz-content-sha256: "+hash).fails(400, "InvalidArgument")
	s.policy(`{` + fromAll + `, "Action": "s3:PutObject", "Condition": {"StringNotEquals": {"s3:x-amz-content-sha256": "` + hash + `"}}}`)
	s.do("PUT", "/photos/k", hello).want(200)
	presigned("/photos/k", "x-amz-content-sha256: "+hash).want(200)
	s.do("PUT", "/photos/k", "other").fails(403, "AccessDenied")
	s.chunked("/photos/k", hello, int64(len(hello)), chunks).fails(403, "AccessDenied")
	s.anonymous("PUT", "/photos/k", hello, "x-amz-content-sha256: "+hash).fails(403, "AccessDenied")
}

// TestSourceOfOtherAccount checks that a policy on sources of copies is not satisfied by a bucket that the client made
// with the same name.
func TestSourceOfOtherAccount(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/approved", "").want(200)
	s.do("PUT", "/approved/k", hello).want(200)
	s.do("PUT", "/approved?acl", "", "x-amz-acl: public-read").want(200)
	s.policy(`{`+toOther+`, "Action": "s3:PutObject"}`,
		`{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringNotLike": {"s3:x-amz-copy-source": "approved/*"}}}`)
	s.as(s.other, "PUT", "/main:photos/copy", "", "x-amz-copy-source: main:approved/k").want(200)
	s.do("PUT", "/photos/copy", "", "x-amz-copy-source: approved/k").want(200)
	s.as(s.other, "PUT", "/approved", "").want(200)
	s.as(s.other, "PUT", "/approved/k", "not approved").want(200)
	for _, source := range []string{"approved/k", "other:approved/k", "/approved/k"} {
		s.as(s.other, "PUT", "/main:photos/copy", "", "x-amz-copy-source: "+source).fails(403, "AccessDenied")
	}
	s.do("GET", "/photos/copy", "").want(200).is(hello)
}

// TestPolicyOfOtherProcess checks that a policy set by another process applies within a second, and immediately if the
// request reads the bucket.
func TestPolicyOfOtherProcess(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/a", hello).want(200)
	s.do("PUT", "/photos/a", hello).want(200)
	b := s.bucket("photos")
	if !s.s3.Service.IsPlain(b.Owner, b.Name) {
		t.Fatal("the bucket is not known to have no policy")
	}
	document := `{"Statement": {` + fromAll + `, "Action": "s3:*"}}`
	if err := s.options.Backend.SetBucket(t.Context(), b.Owner, b.BucketRef, buckets.SettingsChange{Policy: &buckets.Policy{Document: document}}); err != nil {
		t.Fatal(err)
	}
	s.do("GET", "/photos/a", "").fails(403, "AccessDenied")
	for since := time.Now(); ; {
		began := time.Since(since) // on a busy machine the request takes long after its decision
		if s.do("PUT", "/photos/a", hello).status == http.StatusForbidden {
			break
		}
		if began > time.Second {
			t.Fatal("the policy is not obeyed after a second")
		}
	}
}
