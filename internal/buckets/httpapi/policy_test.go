//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"strings"
	"testing"

	"holdfast/internal/buckets"
)

func (s *server) denying(actions, condition string) {
	s.t.Helper()
	b, err := s.store.Bucket(s.t.Context(), s.main.ID, "photos")
	if err != nil {
		s.t.Fatal(err)
	}
	p := buckets.Policy{Document: `{"Statement": {"Effect": "Deny", "Principal": "*", "Action": ` + actions + `, "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"], "Condition": {` + condition + `}}}`}
	if err := s.store.SetBucket(s.t.Context(), b.Owner, b.BucketRef, buckets.SettingsChange{Policy: &p}); err != nil {
		s.t.Fatal(err)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.put("k", hello)
	s.denying(`"s3:*"`, "")
	each(func(method, target, body string) {
		if !strings.HasPrefix(target, photos) && !strings.HasPrefix(target, objects) && !strings.HasPrefix(target, metadata) || method == "PUT" && target == photos {
			return
		}
		s.do(method, target, body).refused(403, "AuthorizationFailed")
	})
	s.denying(`"s3:PutObject"`, `"Null": {"s3:if-none-match": "true"}`)
	s.do("GET", objects+"k", "").is(200)
	s.do("PUT", objects+"new", hello).refused(403, "AuthorizationFailed")
	s.do("PUT", objects+"new", hello, "If-None-Match: *").is(201)
	s.denying(`"s3:ListBucket"`, `"StringNotEquals": {"s3:prefix": "in/"}`)
	s.do("GET", photos+"/objects?prefix=in/", "").is(200)
	s.do("GET", photos+"/objects", "").refused(403, "AuthorizationFailed")
	s.denying(`"s3:GetObject"`, `"StringEquals": {"s3:ExistingObjectTag/class": "secret"}`)
	s.do("GET", objects+"k", "").is(200)
	s.do("GET", objects+"absent", "").fails(404, "ObjectNotFound")
	s.denying(`"s3:GetObject"`, `"NumericGreaterThanEqualsIfExists": {"s3:signatureAge": "0"}, "IpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1"]}, "Bool": {"aws:SecureTransport": "false"}, "DateGreaterThan": {"aws:CurrentTime": "2020-01-01"}`)
	s.do("GET", objects+"k", "").refused(403, "AuthorizationFailed")
}
