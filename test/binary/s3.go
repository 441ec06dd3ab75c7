package binary

import (
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/workload/buckets"
)

func (s *Server) S3(t *testing.T) *buckets.Client {
	t.Helper()
	return &buckets.Client{Signer: s.AccessKey(t, "main"), URL: s.S3URL()}
}

func (s *Server) AccessKey(t *testing.T, account string) sigv4test.Signer {
	t.Helper()
	list := func() Result { return Run(t, s.Env, "buckets", "keys", "list", account, "--secrets") }
	r := list()
	for start := time.Now(); r.Status != 0; r = list() {
		if time.Since(start) > Bound {
			t.Fatalf("buckets keys list: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
	key, err := buckets.ReadKey(r.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *Server) S3URL() string {
	s.t.Helper()
	return s.AwaitOutput(`(?m)^  s3 +(\S+)$|"s3":"([^"]+)"`)[1]
}
