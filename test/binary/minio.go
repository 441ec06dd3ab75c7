package binary

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// MinIO starts MinIO, configured by vars, with a bucket, if installed.
func MinIO(t *testing.T, bucket string, vars ...string) Bucket {
	t.Helper()
	return otherServer(t, "minio", bucket, func(program, address, dir string) *exec.Cmd {
		cmd := exec.Command(program, "server", "--quiet", "--address", address, dir)
		cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+otherKey, "MINIO_ROOT_PASSWORD="+otherKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
		cmd.Env = append(cmd.Env, vars...)
		return cmd
	}, "/minio/health/ready")
}

// Versitygw starts versitygw, configured by vars, with versioning and a bucket, if installed.
func Versitygw(t *testing.T, bucket string, vars ...string) Bucket {
	t.Helper()
	versions := t.TempDir()
	return otherServer(t, "versitygw", bucket, func(program, address, dir string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "--access", otherKey, "--secret", otherKey, "--health", "/health", "--quiet", "posix", "--versioning-dir", versions, dir)
		cmd.Env = append(os.Environ(), vars...)
		return cmd
	}, "/health")
}

const otherKey = "holdfast-test"

// otherServer starts a server whose buckets are folders, and waits until it is healthy.
func otherServer(t *testing.T, name, bucket string, command func(program, address, dir string) *exec.Cmd, health string) Bucket {
	t.Helper()
	found, err := filepath.Glob("../../bin/" + name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		Absentf(t, name, "no bin/%s-*: run make bench-peers-s3", name)
	}
	address, dir := FreePort(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := command(found[0], address, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + address + health)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return Bucket{address, bucket, otherKey, otherKey}
			}
		}
		if time.Since(start) > Bound {
			t.Fatalf("%s does not answer: %v", name, err)
		}
	}
}
