package sqlitedb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCanonicalPath(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link, folder := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("file", link), os.Symlink(".", folder)); err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(wd, file)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: file, link: file, relative: file, folder + "/file": file, folder + "/none": filepath.Join(dir, "none"),
		dir + "/none/x": filepath.Join(dir, "none", "x"),
	} {
		if got := CanonicalPath(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
