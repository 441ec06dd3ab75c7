package s3api_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// TestReasonsOfUnknownBuckets checks the log's reason for a bucket that a request does not find. An account's private
// bucket exists, so the reason must not say that it does not. Requests for a private and for an absent bucket get the same
// answer, as S3 gives for a private bucket, and the same reason.
func TestReasonsOfUnknownBuckets(t *testing.T) {
	t.Parallel()
	s := withBucket(t) // main's private bucket photos
	limited := s.limited(buckets.KeyLimits{Buckets: []string{"log*"}})
	const unsigned, path = "the request is not signed, and this name finds no public or shared bucket", "the path names an account or a bucket that does not exist"
	for _, c := range []struct {
		host, target string
		signer       *sigv4test.Signer
		code, reason string
	}{
		{"", "/photos", nil, "AccessDenied", unsigned},
		{"", "/photos/k", nil, "AccessDenied", unsigned},
		{"", "/absent/k", nil, "AccessDenied", unsigned},
		{"photos." + domain, "/k", nil, "AccessDenied", unsigned},
		{"absent." + domain, "/k", nil, "AccessDenied", unsigned},
		{"absent.main." + domain, "/k", nil, "AccessDenied", unsigned},
		{"photos.nobody." + domain, "/k", nil, "AccessDenied", unsigned},
		{"", "/main:absent/k", nil, "AccessDenied", path},
		{"", "/nobody:photos/k", nil, "AccessDenied", path},
		{"", "/main:absent/k", &s.other, "AccessDenied", path},
		{"", "/absent/k", &limited, "AccessDenied", "the account has no bucket with this name, and the access key is limited to the buckets log*"},
		{"photos.nobody." + domain, "/k", &s.other, "AccessDenied", "the account has no bucket with this name, and the name finds no public or shared bucket"},
		{"", "/photos/k", &s.other, "NoSuchBucket", "the bucket does not exist"}, // the signer may create it
		{"", "/absent/k", &s.main, "NoSuchBucket", "the bucket does not exist"},
		{"", "/main:photos/k", nil, "AccessDenied", "the request is not signed, and nothing lets everybody do this"},
		{"", "/main:photos/k", &s.other, "AccessDenied", "the bucket belongs to another account"},
	} {
		var log bytes.Buffer
		handler := s.handler.Handler(web.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r := httptest.NewRequest("GET", c.target, nil)
		if c.host != "" {
			r.Host = c.host
		}
		if c.signer != nil {
			c.signer.Sign(r, sigv4test.Unsigned, time.Now())
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		message := "Access Denied"
		if c.code == "NoSuchBucket" {
			message = "The specified bucket does not exist."
		}
		if body := w.Body.String(); !strings.Contains(body, "<Code>"+c.code+"</Code><Message>"+message+"</Message>") {
			t.Errorf("%s%s: %s", c.host, c.target, body)
		}
		if !strings.Contains(log.String(), c.reason) {
			t.Errorf("%s%s: the log says %s; want %q", c.host, c.target, log.String(), c.reason)
		}
	}
	// The advice holds: signed, or after it became public, the plain name finds the bucket.
	s.do("GET", "/photos", "").want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.anonymous("GET", "/photos", "").want(200)
}
