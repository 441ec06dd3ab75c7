//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/testdb"
)

// walkWrite is a write of the native API on the object k, which has the tag state=closed.
type walkWrite struct {
	method, target, body string
	headers              []string
	allowed              []policy.Key // keys with which the write succeeds if it states the expected value
}

const walkTo = "https://approved.test/"

func walkWrites() []walkWrite {
	anyClient := []policy.Key{policy.UserAgent, policy.Referer}
	return []walkWrite{
		{"PUT", objects + "k", "new", nil, append(anyClient, policy.Redirect)},
		{"PATCH", metadata + "k", `{"headers":{"m-a":"1"}}`, []string{"Content-Type: application/json"}, append(anyClient, policy.ObjectCreation)},
		{"PATCH", metadata + "k", `{"headers":{"x-amz-website-redirect-location":"` + walkTo + `"}}`, []string{"Content-Type: application/json"}, append(anyClient, policy.ObjectCreation, policy.Redirect)},
		{"DELETE", objects + "k", "", nil, anyClient},
		{"DELETE", objects + "k?version=null", "", nil, append(anyClient, policy.VersionID)},
		{"PATCH", photos, `{"versioning":"enabled"}`, []string{"Content-Type: application/json"}, anyClient},
		{"DELETE", photos, "", nil, anyClient},
	}
}

// walkValues are the expected values of keys that a client can state, or that the API might copy from a header.
var walkValues = map[policy.Key]string{
	policy.IfMatch: `"00112233445566778899aabbccddeeff"`, policy.IfNoneMatch: "*", policy.Redirect: walkTo, policy.VersionID: "null",
	policy.ObjectCreation: "false", policy.SourceIP: "203.0.113.9", policy.ExistingObjectTag: "open",
}

// TestPolicyWalk sends all writes under policies that deny everything unless a condition key has an expected value, or
// unless it is present, for all condition keys. The write states the key by every header. What the store shows afterwards
// must satisfy the policy.
func TestPolicyWalk(t *testing.T) {
	testdb.CheckOnly(t, "it sends every request with every condition key")
	t.Parallel()
	writes := walkWrites()
	for _, r := range httpapi.Routes() {
		if r.Method == "GET" || r.Method == "HEAD" || strings.HasPrefix(r.Label, "gc/") || r.Method == "PUT" && r.Label == "bucket" {
			continue // reads, the operator's garbage collection, and a new bucket have no bucket policy
		}
		if !slices.ContainsFunc(writes, func(w walkWrite) bool { return w.method == r.Method && resourceOf(w.target) == r.Label }) {
			t.Errorf("the walk does not send %s %s", r.Method, r.Label)
		}
	}
	s := withBucket(t)
	for _, k := range policy.KnownKeys() {
		expected, ok := walkValues[k]
		if !ok {
			expected = "approved"
		}
		for _, onlyPresent := range []bool{false, true} {
			for _, w := range writes {
				for _, value := range []string{"absent", "", `"x`, `"x"`, expected} {
					s.walk(w, k, value, expected, onlyPresent)
				}
			}
		}
	}
}

func resourceOf(target string) string {
	switch {
	case strings.HasPrefix(target, objects):
		return "object"
	case strings.HasPrefix(target, metadata):
		return "metadata"
	}
	return "bucket"
}

func (s *server) walk(w walkWrite, k policy.Key, value, expected string, onlyPresent bool) {
	s.t.Helper()
	s.denying(`"s3:GetObject"`, `"Null": {"aws:SourceIp": "true"}`) // nothing that the walk sends
	if _, err := s.find(); err != nil {
		s.do("PUT", photos, "")
		s.put("k", hello)
		s.tag("k", map[string]string{"state": "closed"})
	}
	s.denying(`"s3:*"`, walkCondition(k, expected, onlyPresent))
	before, _ := s.find()
	headers := slices.Clone(w.headers)
	if value != "absent" {
		name := strings.TrimPrefix(strings.TrimPrefix(string(k), "s3:"), "aws:")
		switch k {
		case policy.UserAgent:
			name = "User-Agent"
		case policy.SourceIP:
			name = "X-Forwarded-For"
		case policy.RequestObjectTag, policy.RequestTagKeys, policy.ExistingObjectTag:
			name, value = "x-amz-tagging", "state="+value
		}
		headers = append(headers, name+": "+value)
	}
	a := s.do(w.method, w.target, w.body, headers...)
	after, err := s.find()
	done := a.status < 300
	if done && err == nil && w.method != "DELETE" {
		defer s.tag("k", map[string]string{"state": "closed"})
	}
	always := slices.Contains([]policy.Key{
		policy.SourceIP, policy.SecureTransport, policy.CurrentTime, policy.EpochTime, policy.PrincipalAccount, policy.PrincipalArn,
		policy.PrincipalType, policy.ResourceAccount, policy.S3ResourceAccount, policy.ContentSHA256,
	}, k)
	ofObject := resourceOf(w.target) != "bucket"
	have := ""
	switch {
	case k == policy.UserAgent, k == policy.Referer:
		if have = "stated"; value == expected {
			have = expected
		}
	case always:
		have = "of the client"
	case k == policy.ExistingObjectTag && ofObject:
		have = "closed"
	case k == policy.Redirect && w.method != "DELETE" && ofObject:
		have = after.Headers["x-amz-website-redirect-location"]
	case k == policy.ObjectCreation && ofObject && w.method != "DELETE":
		have = fmt.Sprint(after.ID != before.ID)
	case k == policy.VersionID && strings.Contains(w.target, "version=null"):
		have = "null"
	}
	switch {
	case done && have == "", done && !onlyPresent && have != expected:
		s.t.Errorf("%s %s with %s %q took effect (%d), but the value is %q, want %q", w.method, w.target, k, value, a.status, have, expected)
	case !done && a.status != 403 && fmt.Sprint(before) != fmt.Sprint(after):
		s.t.Errorf("%s %s with %s %q failed (%d), but changed the object", w.method, w.target, k, value, a.status)
	case a.status == 403 && value == expected && slices.Contains(w.allowed, k):
		s.t.Errorf("%s %s with %s %q is refused\n%s", w.method, w.target, k, value, a.body)
	}
}

func walkCondition(k policy.Key, expected string, onlyPresent bool) string {
	name := string(k) + map[policy.Key]string{policy.ExistingObjectTag: "/state", policy.RequestObjectTag: "/state"}[k]
	operator, value := "StringNotEquals", fmt.Sprintf("%q", expected)
	switch {
	case onlyPresent, k == policy.RequestTagKeys:
		operator, value = "Null", `"true"`
	case k == policy.SourceIP:
		operator = "NotIpAddress"
	}
	return `"` + operator + `": {"` + name + `": ` + value + `}`
}

func (s *server) find() (buckets.Object, error) {
	b, err := s.store.Bucket(s.t.Context(), s.main.ID, "photos")
	if err != nil {
		return buckets.Object{}, err
	}
	return s.service.Object(s.t.Context(), b.Owner, b.ID, "k")
}

func (s *server) tag(name string, tags map[string]string) {
	s.t.Helper()
	b, err := s.store.Bucket(s.t.Context(), s.main.ID, "photos")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.service.UpdateObject(s.t.Context(), b.Owner, b.BucketRef, buckets.Update{Name: name, Tags: &tags}); err != nil {
		s.t.Fatal(err)
	}
}
