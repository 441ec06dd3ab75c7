package binary

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
)

// MinIO starts MinIO with vars and creates a bucket.
func MinIO(t *testing.T, bucket string, vars ...string) Bucket {
	t.Helper()
	return otherServer(t, "minio", bucket, func(program, address, dir string) *exec.Cmd {
		cmd := exec.Command(program, "server", "--quiet", "--address", address, dir)
		cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+otherKey, "MINIO_ROOT_PASSWORD="+otherKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
		cmd.Env = append(cmd.Env, vars...)
		return cmd
	})
}

// Versitygw starts versitygw with vars and versioning, and creates a bucket.
func Versitygw(t *testing.T, bucket string, vars ...string) Bucket {
	t.Helper()
	versions := t.TempDir()
	return otherServer(t, "versitygw", bucket, func(program, address, dir string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "--access", otherKey, "--secret", otherKey, "--quiet", "posix", "--versioning-dir", versions, dir)
		cmd.Env = append(os.Environ(), vars...)
		return cmd
	})
}

const otherKey = "holdfast-test"

// otherServer starts a server and waits until it has created a bucket, because the health check passes before the
// server accepts writes.
func otherServer(t *testing.T, name, bucket string, command func(program, address, dir string) *exec.Cmd) Bucket {
	t.Helper()
	found, err := filepath.Glob("../../bin/" + name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		Absentf(t, name, "no bin/%s-*: run make bench-peers-s3", name)
	}
	b := Bucket{testdb.FreeAddress(t), bucket, otherKey, otherKey}
	cmd := command(found[0], b.Address, t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := &buckets.Client{URL: "http://" + b.Address, Signer: buckets.Key(b.ID, b.Secret)}
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		a, err := c.Send(t.Context(), http.MethodPut, "/"+bucket, "")
		if err == nil && a.Status == http.StatusOK {
			return b
		}
		if time.Since(start) > Bound {
			t.Fatalf("%s does not create a bucket: %d %s, %v", name, a.Status, a.Body, err)
		}
	}
}
