package testdb

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Tree describes everything below a folder except the named paths: the kind, mode, link target and content.
func Tree(t testing.TB, folder string, except ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if slices.Contains(except, path) && d != nil {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %x", info.Size(), sha256.Sum256(content))
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + to
		}
		all[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// WantTree fails if the files that Tree described have changed.
func WantTree(t testing.TB, what string, before, after map[string]string) {
	t.Helper()
	for path, was := range before {
		if is, left := after[path]; !left {
			t.Errorf("%s: deleted %s", what, path)
		} else if is != was {
			t.Errorf("%s: changed %s from %s to %s", what, path, was, is)
		}
	}
	for path, is := range after {
		if _, known := before[path]; !known {
			t.Errorf("%s: created %s (%s)", what, path, is)
		}
	}
}

// HostileNames leave a folder, name nothing in it, or are too long for a file system.
var HostileNames = []string{
	"..", "../x", "../../x", "/x", "/tmp/holdfast-hostile", "a/../../x", "../other/x", "./../x", "a\x00b", "a\nb", `..\x`,
	strings.Repeat("n", 256), strings.Repeat("a/", 2000) + "x",
}
