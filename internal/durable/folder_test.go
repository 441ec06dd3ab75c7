package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// badNames leave a folder, or name nothing in it.
var badNames = []string{
	"", ".", "..", "../x", "../../x", "/x", "a/../x", "a/../../x", "./x", "a//x", "a/", "a\x00b", "a\nb", `a\b`, `..\x`, "a\x7f", "a\xff",
	strings.Repeat("n", 256), "a/" + strings.Repeat("n", 256), strings.Repeat("a/", 2000) + "..",
}

// calls are all methods that take a name.
var calls = map[string]func(f *Folder, name string) error{
	"Create":     func(f *Folder, name string) error { return f.Create(name, Bytes([]byte("new"))) },
	"Replace":    func(f *Folder, name string) error { return f.Replace(name, Bytes([]byte("new"))) },
	"Move":       func(f *Folder, name string) error { return f.Move("known", name) },
	"MakeFolder": func(f *Folder, name string) error { return f.MakeFolder(name) },
	"Remove":     func(f *Folder, name string) error { return f.Remove(name) },
	"RemoveAll":  func(f *Folder, name string) error { return f.RemoveAll(name) },
	"NewFolder":  func(f *Folder, name string) error { return closed(f.NewFolder(name)) },
	"OpenFolder": func(f *Folder, name string) error { return closed(f.OpenFolder(name)) },
	"Scratch":    func(f *Folder, name string) error { return closed(f.Scratch(name)) },
	"Open":       func(f *Folder, name string) error { return closed(f.Open(name)) },
	"FileName":   func(f *Folder, name string) error { _, err := f.FileName(name); return err },
	"Exists":     func(f *Folder, name string) error { _, err := f.Exists(name); return err },
}

func closed[C io.Closer](c C, err error) error {
	if err == nil {
		err = c.Close()
	}
	return err
}

// TestAllCalls checks that calls lists every method with a name.
func TestAllCalls(t *testing.T) {
	t.Parallel()
	for m := range reflect.TypeFor[*Folder]().Methods() {
		if takesName := m.Type.NumIn() > 1; takesName != (calls[m.Name] != nil) {
			t.Errorf("%s: takes a name: %v", m.Name, takesName)
		}
	}
}

// tree describes everything below a folder.
func tree(t *testing.T, folder string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		text := ""
		if err == nil && d.Type().IsRegular() {
			content, readErr := os.ReadFile(path)
			text, err = string(content), readErr
		}
		all = append(all, path+" "+d.Type().String()+" "+text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outside returns a folder below a parent that contains a folder and a file that no call may change.
func outside(t *testing.T) (parent string, f *Folder) {
	t.Helper()
	parent = t.TempDir()
	inside := filepath.Join(parent, "inside")
	for _, folder := range []string{inside, filepath.Join(parent, "other"), filepath.Join(inside, "a")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(parent, "x"), filepath.Join(parent, "other", "x"), filepath.Join(inside, "known")} {
		if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFolder(inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return parent, f
}

func TestFolderRefusesNames(t *testing.T) {
	t.Parallel()
	parent, f := outside(t)
	before := tree(t, parent)
	for _, name := range badNames {
		for call, fn := range calls {
			if err := fn(f, name); err == nil || len(name) > 2 && strings.Contains(err.Error(), name) {
				t.Errorf("%s %.20q: %v", call, name, err)
			}
		}
	}
	if after := tree(t, parent); !slices.Equal(before, after) {
		t.Errorf("the calls changed\n%q\nto\n%q", before, after)
	}
}

// TestFolderAndLinks plants links in the folder: no call reads or changes their targets.
func TestFolderAndLinks(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"../x", "/etc/hostname", "../none", "../other"} {
		for _, name := range []string{"link", "link/x", "link/new"} {
			parent, f := outside(t)
			link := filepath.Join(f.Path(), "link")
			others := func() []string {
				return slices.DeleteFunc(tree(t, parent), func(line string) bool { return strings.HasPrefix(line, f.Path()) })
			}
			before := others()
			plant := func() {
				if err := errors.Join(os.RemoveAll(link), os.Symlink(to, link)); err != nil {
					t.Fatal(err)
				}
			}
			for call, fn := range calls {
				plant()
				if err := fn(f, name); err == nil && (name != "link" || slices.Contains([]string{"Open", "OpenFolder", "FileName", "Create"}, call)) {
					t.Errorf("%s of %s, a link to %s: no error", call, name, to)
				}
			}
			plant()
			_ = f.Move(name, "moved") // the link itself may move
			if after := others(); !slices.Equal(before, after) {
				t.Errorf("%s, a link to %s: the calls changed\n%q\nto\n%q", name, to, before, after)
			}
		}
	}
}

// TestFolderAndFIFO checks that nothing waits for a FIFO's writer, and that only regular files are opened.
func TestFolderAndFIFO(t *testing.T) {
	t.Parallel()
	_, f := outside(t)
	if err := syscall.Mkfifo(filepath.Join(f.Path(), "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"fifo", "a"} {
			if _, err := f.Open(name); err == nil {
				t.Errorf("%s opens as a file", name)
			}
			if _, err := f.FileName(name); err == nil {
				t.Errorf("%s has the name of a file", name)
			}
		}
		_, err := f.OpenFolder("fifo")
		if err == nil || f.MakeFolder("fifo") == nil || f.MakeFolder("fifo/a") == nil {
			t.Errorf("a FIFO is taken for a folder: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("a call waits for the FIFO's writer")
	}
}

// TestFolderKeepsItsPlace replaces an open folder by a link: the calls still use the folder.
func TestFolderKeepsItsPlace(t *testing.T) {
	t.Parallel()
	parent, f := outside(t)
	moved := filepath.Join(parent, "moved")
	if err := errors.Join(os.Rename(f.Path(), moved), os.Symlink("other", f.Path())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Create("new", Bytes([]byte("new"))), f.MakeFolder("b/c"), f.Move("known", "b/c/known")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "b/c/known"} {
		if info, err := os.Stat(filepath.Join(moved, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(parent, "other")); err != nil || len(left) != 1 {
		t.Errorf("the other folder has %v, %v", left, err)
	}
	if info, err := os.Stat(filepath.Join(moved, "b", "c")); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if sub, err := f.NewFolder("a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing folder: %v, %v", sub, err)
	}
	if err := f.Create("new", Bytes(nil)); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), filepath.Join(f.Path(), "new")) {
		t.Errorf("an existing file: %v", err)
	}
}
