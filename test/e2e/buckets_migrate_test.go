package e2e

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestBucketsMigrate checks the access key if the database was migrated before the first start. The first server
// generates the secret that encrypts the key.
func TestBucketsMigrate(t *testing.T) {
	t.Parallel()
	data := binary.UsedData(t, t.TempDir())
	vars := []string{"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"}
	env := binary.Environ(append(vars, "HOLDFAST_DATA="+data)...)
	if r := binary.Run(t, env, "migrate"); r.Status != 0 {
		t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, env, "buckets", "accounts", "create", "early"); r.Status == 0 || !strings.Contains(r.Stderr, "start the server once") {
		t.Errorf("account create before the first start: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, s.S3URL())
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	s.Verb("buckets", "accounts", "create", "early")
}
