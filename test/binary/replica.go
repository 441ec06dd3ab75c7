package binary

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var lag = regexp.MustCompile(`(?m)^holdfast_replica_lag_seconds (\S+)$`)

// AwaitReplica waits until the replica contains everything that was acknowledged before the call.
func (s *Server) AwaitReplica() {
	s.t.Helper()
	written := time.Now()
	asked := written
	s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		before := asked // the reported lag is at least that old
		asked = time.Now()
		found := lag.FindStringSubmatch(body)
		if found == nil {
			return false
		}
		seconds, err := strconv.ParseFloat(found[1], 64)
		return err == nil && before.Add(-time.Duration(seconds*float64(time.Second))).After(written)
	})
}

// Key creates an encryption key as in the guide, and returns its file and the public key.
func Key(t *testing.T) (file, public string) {
	t.Helper()
	r := Run(t, Environ(), "backup", "key")
	found := regexp.MustCompile(`^# created: \S+\n# public key: (age1\S+)\nAGE-SECRET-KEY-1\S+\n$`).FindStringSubmatch(r.Stdout)
	if r.Status != 0 || found == nil || !strings.Contains(r.Stderr, found[1]) {
		t.Fatalf("backup key: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	file = filepath.Join(t.TempDir(), "backup.key")
	if err := os.WriteFile(file, []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, found[1]
}

// Signer returns the public key that a data folder's server signs with.
func Signer(t *testing.T, data string) string {
	t.Helper()
	r := Run(t, Environ("HOLDFAST_DATA="+data), "backup", "key")
	found := regexp.MustCompile(`(?m)^# signed by: (hfsig1[a-z2-7]{58})$`).FindStringSubmatch(r.Stdout)
	if r.Status != 0 || found == nil || !strings.Contains(r.Stderr, "signed by: "+found[1]) {
		t.Fatalf("backup key: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	return found[1]
}

// Bucket is a bucket for a replica or backups.
type Bucket struct{ Address, Name, ID, Secret string }

func (s *Server) NewBucket(t *testing.T, name string) Bucket {
	t.Helper()
	c := s.S3(t)
	a, err := c.Send(t.Context(), http.MethodPut, "/"+name, "")
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("create a bucket: %d %s, %v", a.Status, a.Body, err)
	}
	return Bucket{strings.TrimPrefix(s.S3URL(), "http://"), name, c.Signer.AccessKeyID, c.Signer.Secret}
}

func (b Bucket) URL() string {
	return "s3://" + b.Name + "?prefix=holdfast/&region=us-east-1&use_path_style=true&endpoint=http://" + b.Address
}

func (b Bucket) Vars() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + b.ID, "AWS_SECRET_ACCESS_KEY=" + b.Secret, "AWS_EC2_METADATA_DISABLED=true"}
}
