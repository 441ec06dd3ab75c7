package e2e

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

type s3 struct {
	t *testing.T
	*buckets.Client
}

func newS3(t *testing.T, s *binary.Server, base string) s3 {
	t.Helper()
	return s3{t, &buckets.Client{URL: base, Signer: s.AccessKey(t, "main")}}
}

// at returns a client with the same access key for another server.
func (c s3) at(url string) s3 { return s3{c.t, c.At(url)} }

func (c s3) want(status int, method, path string, body []byte) []byte {
	c.t.Helper()
	a, err := c.Send(c.t.Context(), method, path, string(body))
	if err != nil || a.Status != status {
		c.t.Fatalf("%s %s: %d %s %v, want %d", method, path, a.Status, a.Body, err, status)
	}
	return []byte(a.Body)
}

// TestBuckets checks that acknowledged objects survive a kill: small objects in the database, large objects on a
// storage node.
func TestBuckets(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	vars := []string{"HOLDFAST_BUCKETS__LISTEN=" + listen}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, "http://"+listen)
	bodies := map[string][]byte{}
	random := rand.NewChaCha8([32]byte{1})
	for name, size := range map[string]int{"/photos/empty": 0, "/photos/small": 1000, "/photos/a%20+%2F..//large": 3 << 20} {
		bodies[name] = make([]byte, size)
		_, _ = random.Read(bodies[name])
	}
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	for name, body := range bodies {
		c.want(http.StatusOK, http.MethodPut, name, body)
	}
	s.Kill()
	s = binary.Start(t, data, vars...)
	for name, body := range bodies {
		if got := c.want(http.StatusOK, http.MethodGet, name, nil); !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(body))
		}
	}
	if list := string(c.want(http.StatusOK, http.MethodGet, "/photos?list-type=2", nil)); !strings.Contains(list, "<KeyCount>3</KeyCount>") {
		t.Errorf("list: %s", list)
	}
	c.want(http.StatusConflict, http.MethodDelete, "/photos", nil)
	for name := range bodies {
		c.want(http.StatusNoContent, http.MethodDelete, name, nil)
	}
	c.want(http.StatusNoContent, http.MethodDelete, "/photos", nil)
	s.Verb("buckets", "keys", "revoke", c.AccessKeyID)
	if out := s.Verb("buckets", "accounts", "create", "other"); !strings.Contains(out, "SECRET KEY") {
		t.Errorf("create: %s", out)
	}
}

// TestBucketsNative uses the native API with the command's tokens, for an account and for garbage collection.
func TestBucketsNative(t *testing.T) {
	t.Parallel()
	listen := testdb.FreeAddress(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+listen, "HOLDFAST_BUCKETS__GARBAGE_AFTER=0s", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=0s")
	c := newS3(t, s, "http://"+listen)
	do := func(token string, want int, method, path, body string) string {
		t.Helper()
		a, err := workload.Send(t.Context(), nil, method, s.URL+path, body, "Authorization: Bearer "+token)
		if err != nil || a.Status != want {
			t.Fatalf("%s %s: %d %s %v, want %d", method, path, a.Status, a.Body, err, want)
		}
		return a.Body
	}
	const bucket, batches = "/buckets/v1/accounts/main/buckets/photos", "/buckets/v1/gc/batches"
	token := strings.TrimSpace(s.Verb("buckets", "tokens", "create", "main", "--ttl", "1m"))
	operator := strings.TrimSpace(s.Verb("buckets", "tokens", "create", "main", "--gc"))
	large := strings.Repeat("large ", 10000)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	c.want(http.StatusOK, http.MethodPut, "/photos/a//..", []byte(large))
	if got := do(token, http.StatusOK, http.MethodGet, bucket+"/objects/a//..", ""); got != large {
		t.Errorf("%d bytes, want %d", len(got), len(large))
	}
	if got := do(token, http.StatusOK, http.MethodGet, bucket+"/metadata/a//..", ""); !strings.Contains(got, `"sharks":[{"datacenter":"local","manta_storage_id":"1"}]`) {
		t.Error(got)
	}
	do(token, http.StatusOK, http.MethodPut, bucket+"/objects/a//..", "new")
	if got := c.want(http.StatusOK, http.MethodGet, "/photos/a//..", nil); string(got) != "new" {
		t.Errorf("S3 reads %q", got)
	}
	do(token, http.StatusForbidden, http.MethodPost, batches, "")
	if got := do(operator, http.StatusCreated, http.MethodPost, batches, ""); !strings.Contains(got, `"content_length":60000`) {
		t.Error(got)
	}
	s.Verb("buckets", "accounts", "create", "other")
	do(strings.TrimSpace(s.Verb("buckets", "tokens", "create", "other")), http.StatusForbidden, http.MethodGet, bucket, "")
	for _, args := range [][]string{{"absent"}, {"main", "--ttl", "0s"}, {"main", "--ttl", "2161h"}, {}} {
		if r := binary.Run(t, s.Env, append([]string{"buckets", "tokens", "create"}, args...)...); r.Status == 0 {
			t.Errorf("buckets tokens create %v: %s", args, r.Stdout)
		}
	}
}
