package sigv4_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
)

// linkEnds is exampleLink's Expires.
var linkEnds = time.Unix(1175139620, 0)

// exampleLink is from "Signing and authenticating REST requests (AWS signature version 2)", with the bucket from an older
// edition: today's edition renames the bucket, but shows the old signature.
func exampleLink() sigv4.Request {
	return sigv4.Request{
		Method: "GET", Host: "johnsmith.s3.amazonaws.com", HostBucket: "johnsmith", Header: http.Header{},
		Target: "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=1175139620",
	}
}

// version2At returns a Verifier that accepts version 2.
func version2At(t time.Time) *sigv4.Verifier {
	v := verifierAt(t)
	v.Version2 = true
	return v
}

func TestVersion2Example(t *testing.T) {
	t.Parallel()
	byPath := exampleLink()
	byPath.HostBucket, byPath.Target = "", "/johnsmith"+byPath.Target
	for _, r := range []sigv4.Request{exampleLink(), byPath} {
		s, err := version2At(linkEnds).Verify(t.Context(), r, exampleLookup)
		if err != nil {
			t.Fatal(err)
		}
		if s.AccessKeyID != exampleKey || !s.Presigned || !s.Version2 || !s.Time.IsZero() || s.Payload != sigv4.UnsignedPayload {
			t.Errorf("got %+v", s)
		}
		if r.ClaimedKeyID() != exampleKey {
			t.Errorf("claimed key %q", r.ClaimedKeyID())
		}
	}
	_, err := verifierAt(linkEnds).Verify(t.Context(), exampleLink(), exampleLookup)
	if kindOf(t, err) != sigv4.Unsupported {
		t.Errorf("switched off: %v", err)
	}
}

// presign2 signs a request that expires at linkEnds.
func presign2(t *testing.T, method, target, bucket string, lines ...string) sigv4.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+strings.Trim(bucket+".s3.test", ".")+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header(lines...)
	exampleSigner.PresignVersion2(r, bucket, linkEnds)
	return sigv4.Request{Method: method, Target: r.URL.RequestURI(), Host: r.Host, HostBucket: bucket, Header: r.Header}
}

// TestVersion2Signs accepts all parts that a link may contain, and refuses the link after any change.
func TestVersion2Signs(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]sigv4.Request{
		"GET":        presign2(t, "GET", "/b/k", ""),
		"virtual":    presign2(t, "HEAD", "/k", "b.c"),
		"list":       presign2(t, "GET", "/b", ""),
		"escaped":    presign2(t, "DELETE", "/b/%2B%C3%BC%20%25", ""),
		"unescaped":  presign2(t, "DELETE", "/b/a+b$c", ""),
		"parameters": presign2(t, "GET", "/b/k?versionId=null&response-content-type=text%2Fhtml&response-content-disposition=attachment%3B%20filename%3D%22a%20%26%20b%22", ""),
		"headers": presign2(t, "PUT", "/b/k", "", "Content-Type: image/jpeg", "Content-MD5: 4gJE4saaMU4BqNR0kLY+lw==", "x-amz-acl: private",
			"x-amz-meta-b: two  spaces", "x-amz-meta-a: one", "x-amz-meta-a: two", "Range: bytes=0-1"),
		"payload hash": presign2(t, "PUT", "/b/k", "", "x-amz-content-sha256: "+emptyHash),
	} {
		v := version2At(linkEnds)
		verify := func(r sigv4.Request) error {
			_, err := v.Verify(t.Context(), r, exampleLookup)
			return err
		}
		if err := verify(r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for change, with := range map[string]func(*sigv4.Request){
			"method":      func(r *sigv4.Request) { r.Method = "POST" },
			"path":        func(r *sigv4.Request) { r.Target = strings.Replace(r.Target, "?", "a?", 1) },
			"host bucket": func(r *sigv4.Request) { r.HostBucket = "other" },
			"expiry":      func(r *sigv4.Request) { r.Target = strings.Replace(r.Target, "Expires=1", "Expires=01", 1) },
			"type":        func(r *sigv4.Request) { r.Header.Set("Content-Type", "text/html") },
			"MD5":         func(r *sigv4.Request) { r.Header.Set("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==") },
			"header":      func(r *sigv4.Request) { r.Header.Set("X-Amz-Copy-Source", "/b/secret") },
			"version":     func(r *sigv4.Request) { r.Target += "&versionId=1" },
			"parameter":   func(r *sigv4.Request) { r.Target += "&max-keys=1" },
		} {
			changed := r
			changed.Header = r.Header.Clone()
			with(&changed)
			if err := verify(changed); kindOf(t, err) == 0 {
				t.Errorf("%s: accepted with another %s", name, change)
			}
		}
	}
}

func TestVersion2Refuses(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		at     time.Time
		change func(*sigv4.Request)
		want   sigv4.Kind
	}{
		"in its last moment":       {linkEnds, nil, 0},
		"expired":                  {linkEnds.Add(1), nil, sigv4.Expired},
		"for seven days":           {linkEnds.Add(-week), nil, 0},
		"made by a fast clock":     {linkEnds.Add(-week - sigv4.MaxSkew), nil, 0},
		"for longer":               {linkEnds.Add(-week - sigv4.MaxSkew - 1), nil, sigv4.ExpiresTooLate},
		"no Expires":               {linkEnds, replace("Expires=1175139620", ""), sigv4.MalformedQuery},
		"empty Expires":            {linkEnds, replace("Expires=1175139620", "Expires="), sigv4.MalformedQuery},
		"Expires is no number":     {linkEnds, replace("Expires=1175139620", "Expires=-1"), sigv4.MalformedQuery},
		"Expires is too large":     {linkEnds, replace("Expires=1175139620", "Expires=99999999999999999999"), sigv4.MalformedQuery},
		"Expires in the far":       {linkEnds, replace("Expires=1175139620", "Expires=1099511627775"), sigv4.ExpiresTooLate},
		"Expires twice":            {linkEnds, replace("Expires=1175139620", "Expires=1175139620&Expires=1175139620"), sigv4.MalformedQuery},
		"key twice":                {linkEnds, replace("&Expires", "&AWSAccessKeyId=other&Expires"), sigv4.MalformedQuery},
		"another key":              {linkEnds, replace(exampleKey, "other"), sigv4.UnknownKey},
		"no key":                   {linkEnds, replace(exampleKey, ""), sigv4.MalformedQuery},
		"signature is not base64":  {linkEnds, replace("NpgC", "~"), sigv4.Mismatch},
		"signature is short":       {linkEnds, replace("NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D", "NpgC"), sigv4.Mismatch},
		"signature is empty":       {linkEnds, replace("NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D", ""), sigv4.MalformedQuery},
		"session token":            {linkEnds, replace("?", "?x-amz-security-token=a&"), sigv4.SessionToken},
		"session token, header":    {linkEnds, func(r *sigv4.Request) { r.Header.Set("X-Amz-Security-Token", "a") }, sigv4.SessionToken},
		"version 4 header, too":    {linkEnds, func(r *sigv4.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 a") }, sigv4.SeveralCredentials},
		"version 4 query, too":     {linkEnds, replace("?", "?X-Amz-Signature=a&"), sigv4.SeveralCredentials},
		"version 2 in a header":    {linkEnds, func(r *sigv4.Request) { r.Target = "/a"; r.Header.Set("Authorization", "AWS "+exampleKey+":a") }, sigv4.Unsupported},
		"header with two values":   {linkEnds, func(r *sigv4.Request) { r.Header["Content-Type"] = []string{"a", "b"} }, sigv4.MalformedHeader},
		"query repeats no header":  {linkEnds, replace("?", "?content-type=text%2Fplain&"), sigv4.UnsignedParameter},
		"query repeats no MD5":     {linkEnds, replace("?", "?content-md5=a&"), sigv4.UnsignedParameter},
		"signed chunks":            {linkEnds, func(r *sigv4.Request) { r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") }, sigv4.Unsupported},
		"payload hash is not one":  {linkEnds, func(r *sigv4.Request) { r.Header.Set("X-Amz-Content-Sha256", "a") }, sigv4.InvalidPayloadHash},
		"control character":        {linkEnds, replace("?", "?versionId=a%0Ab&"), sigv4.MalformedQuery},
		"escaped parameter":        {linkEnds, replace("?", "?%6dax-keys=1&"), sigv4.UnsignedParameter},
		"parameter without a name": {linkEnds, replace("?", "?=1&"), sigv4.UnsignedParameter},
		"subresource":              {linkEnds, replace("?", "?acl=1&"), sigv4.UnsignedParameter},
	} {
		r := exampleLink()
		if c.change != nil {
			c.change(&r)
		}
		if _, err := version2At(c.at).Verify(t.Context(), r, exampleLookup); kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func replace(from, to string) func(*sigv4.Request) {
	return func(r *sigv4.Request) { r.Target = strings.Replace(r.Target, from, to, 1) }
}

// TestVersion2OfBoto3 accepts headers that boto3 repeats in the query, with or without the headers themselves.
func TestVersion2OfBoto3(t *testing.T) {
	t.Parallel()
	r := presign2(t, "PUT", "/b/k", "", "Content-Type: text/plain", "x-amz-acl: private", "x-amz-meta-a: 1")
	r.Target += "&content-type=text%2Fplain&x-amz-acl=private&x-amz-meta-a=1"
	v := version2At(linkEnds)
	if _, err := v.Verify(t.Context(), r, exampleLookup); err != nil {
		t.Error(err)
	}
	r.Header.Del("X-Amz-Acl")
	if _, err := v.Verify(t.Context(), r, exampleLookup); err != nil {
		t.Errorf("in the query alone: %v", err)
	}
	r.Header.Set("X-Amz-Acl", "public-read")
	_, err := v.Verify(t.Context(), r, exampleLookup)
	if e, ok := errors.AsType[*sigv4.Error](err); !ok || e.Kind != sigv4.UnsignedParameter || !slices.Equal(e.Headers, []string{"x-amz-acl"}) {
		t.Errorf("another value: %v", err)
	}
}

// examplePolicy2 and its signature are from "Upload examples (AWS signature version 2)". The signature uses the secret
// from an older edition.
const examplePolicy2 = `{ "expiration": "2007-12-01T12:00:00.000Z",
  "conditions": [
    {"bucket": "johnsmith"},
    ["starts-with", "$key", "user/eric/"],
    {"acl": "public-read"},
    {"success_action_redirect": "http://johnsmith.s3.amazonaws.com/successful_upload.html"},
    ["starts-with", "$Content-Type", "image/"],
    {"x-amz-meta-uuid": "14365123651274"},
    ["starts-with", "$x-amz-meta-tag", ""]
  ]
}
`

func exampleLookup2(_ context.Context, id string) (string, bool, error) {
	return "uV3F3YluFJax1cknvbcGwgjvx4QpvB+leU8dUj2o", id == exampleKey, nil
}

func exampleForm2() map[string]string {
	return map[string]string{
		"bucket": "johnsmith", "key": "user/eric/MyPicture.jpg", "acl": "public-read", "content-type": "image/jpeg",
		"success_action_redirect": "http://johnsmith.s3.amazonaws.com/successful_upload.html",
		"x-amz-meta-uuid":         "14365123651274", "x-amz-meta-tag": "Some,Tag,For,Picture", "awsaccesskeyid": exampleKey,
		"policy": base64Of(examplePolicy2), "signature": "0RavWzkygo6QX9caELEqKi9kDbU=",
	}
}

func TestVersion2Form(t *testing.T) {
	t.Parallel()
	ends := time.Date(2007, 12, 1, 12, 0, 0, 0, time.UTC)
	form, err := version2At(ends).VerifyForm(t.Context(), exampleForm2(), exampleLookup2)
	if err != nil {
		t.Fatal(err)
	}
	if !form.Version2 || form.AccessKeyID != exampleKey || !form.Time.IsZero() {
		t.Errorf("got %+v", form)
	}
	if err := form.Policy.Check(exampleForm2()); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		at           time.Time
		field, value string
		want, check  sigv4.Kind
	}{
		"expired":               {ends.Add(1), "policy", base64Of(examplePolicy2), sigv4.PolicyExpired, 0},
		"another policy":        {ends, "policy", base64Of(strings.Replace(examplePolicy2, "2007", "2027", 1)), sigv4.Mismatch, 0},
		"no policy":             {ends, "policy", "", sigv4.Mismatch, 0},
		"no signature":          {ends, "signature", "", sigv4.Mismatch, 0},
		"another key":           {ends, "awsaccesskeyid", "other", sigv4.UnknownKey, 0},
		"no key":                {ends, "awsaccesskeyid", "", sigv4.MalformedHeader, 0},
		"signed twice":          {ends, "x-amz-signature", "a", sigv4.SeveralCredentials, 0},
		"two credentials":       {ends, "x-amz-credential", "a", sigv4.SeveralCredentials, 0},
		"session token":         {ends, "x-amz-security-token", "a", sigv4.SessionToken, 0},
		"a field without cause": {ends, "x-amz-meta-other", "1", 0, sigv4.PolicyConditionMissing},
		"another bucket":        {ends, "bucket", "other", 0, sigv4.PolicyConditionFailed},
		"another prefix":        {ends, "key", "user/other", 0, sigv4.PolicyConditionFailed},
	} {
		fields := exampleForm2()
		fields[c.field] = c.value
		form, err := version2At(c.at).VerifyForm(t.Context(), fields, exampleLookup2)
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err == nil {
			if err := form.Policy.Check(fields); kindOf(t, err) != c.check {
				t.Errorf("%s: got %v, want %v", name, err, c.check)
			}
		}
	}
	// The fields that sign with version 2 need no condition with version 2 only.
	policy, err := sigv4.ParsePolicy(base64Of(examplePolicy2))
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Check(exampleForm2()); kindOf(t, err) != sigv4.PolicyConditionMissing {
		t.Errorf("version 4: %v", err)
	}
}

// A link with a changed query is refused, unless its parameters are the example's.
func FuzzVersion2(f *testing.F) {
	_, right, _ := strings.Cut(exampleLink().Target, "?")
	f.Add(right)
	f.Add(right + "&versionId=1&response-content-type=a")
	f.Add(strings.ReplaceAll(right, "%2B", "+"))
	f.Add("x-amz-acl=private&" + right + "&X-AMZ-ACL=")
	f.Add("AWSAccessKeyId&Expires=%&Signature=;")
	want, err := url.ParseQuery(right)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := exampleLink()
		r.Target = "/photos/puppy.jpg?" + query
		_, err := version2At(linkEnds).Verify(t.Context(), r, exampleLookup)
		if kindOf(t, err) != 0 {
			return
		}
		got, err := url.ParseQuery(query)
		if err != nil || got.Encode() != want.Encode() {
			t.Errorf("%q is accepted: %v", query, err)
		}
	})
}
