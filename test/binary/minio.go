package binary

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// MinIO starts a MinIO server with a bucket, if its binary is there.
func MinIO(t *testing.T, bucket string) Bucket {
	t.Helper()
	found, err := filepath.Glob("../../bin/minio-*")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		Absentf(t, "minio", "no bin/minio-*: run make bench-peers-s3")
	}
	address, key := FreePort(t), "holdfast-test"
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(found[0], "server", "--quiet", "--address", address, dir)
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+key, "MINIO_ROOT_PASSWORD="+key, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/minio/health/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return Bucket{address, bucket, key, key}
			}
		}
		if time.Since(start) > Bound {
			t.Fatalf("MinIO does not answer: %v", err)
		}
	}
}
