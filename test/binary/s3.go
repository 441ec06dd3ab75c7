package binary

import (
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

// S3 is where a server speaks S3, and an access key.
type S3 struct {
	URL string
	sigv4test.Signer
}

// S3 returns the access key of the account that a new server has. It waits until the server
// has created it.
func (s *Server) S3(t *testing.T) S3 {
	t.Helper()
	list := func() Result { return Run(t, s.Env, "buckets", "keys", "list", "main", "--secrets") }
	r := list()
	for start := time.Now(); r.Status != 0; r = list() {
		if time.Since(start) > Bound {
			t.Fatalf("buckets keys list: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(lines) != 2 || len(fields) < 3 {
		t.Fatalf("buckets keys list: %q", lines)
	}
	return S3{s.S3URL(), sigv4test.Signer{AccessKeyID: fields[0], Secret: fields[len(fields)-1], Region: "us-east-1"}}
}

// S3URL returns the address of the S3 listener.
func (s *Server) S3URL() string {
	s.t.Helper()
	return s.AwaitOutput(`(?m)^  s3 +(\S+)$|"s3":"([^"]+)"`)[1]
}
