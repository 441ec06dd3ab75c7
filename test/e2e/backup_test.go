package e2e

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/binary"
)

func tmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs permission to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestBackupToAFullDisk checks that a failed backup frees its disk space and does not stop the server.
func TestBackupToAFullDisk(t *testing.T) {
	t.Parallel()
	dir := tmpfs(t, "size=1m")
	s := binary.Start(t, t.TempDir())
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"`+strings.Repeat("x", 1500_000)+`"}`)
	r := binary.Run(t, s.Env, "backup", dir+"/backup")
	if r.Status != 1 || !strings.Contains(r.Stderr, "the disk is full") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/y", `{"payload":"y"}`)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if r := binary.Run(t, s.Env, "backup", dir+"/backup"); r.Status != 1 || !strings.Contains(r.Stderr, "read-only file system") {
		t.Errorf("read-only: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

func TestBackupWithoutRights(t *testing.T) {
	t.Parallel()
	run, data, dir := asNobody(t), openFolder(t), openFolder(t)
	s := binary.Start(t, data)
	s.Kill()
	if os.Getuid() == 0 {
		err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, nobody, nobody))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	r := run(s.Env, "backup", dir+"/backup")
	if r.Status != 1 || !strings.Contains(r.Stderr, "permission denied") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

// TestBackupDoesNotMigrate checks that a backup does not change the schema: before an upgrade, the new binary may make
// the backup.
func TestBackupDoesNotMigrate(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := binary.Start(t, data)
	s.Kill()
	path := filepath.Join(data, "tokenserver.db")
	alter(t, path, `DELETE FROM schema_migrations`)
	dir := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", dir)
	for _, path := range []string{path, filepath.Join(dir, "tokenserver.db")} {
		if n := number(t, path, `SELECT count(*) FROM schema_migrations`); n != 0 {
			t.Errorf("%s was migrated", path)
		}
	}
}
