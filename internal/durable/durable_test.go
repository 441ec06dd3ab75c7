package durable

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forgetful is an in-memory disk that loses unsynced data in a power cut. Each name changed since its folder's last
// sync then refers to its old target or to any later target, and an unsynced file is empty, as after a delayed
// allocation.
type forgetful struct {
	folders map[string]*names
	cut     int // calls until the power cut; negative means never
	calls   int
}

// names maps a folder's names to files, or to nil for a folder.
type names struct {
	now, durable map[string]*content
	since        []map[string]*content // states since the last sync
}

type content struct {
	text, durable string
	isFolder      bool
}

var errCut = errors.New("the power was cut")

func newForgetful() *forgetful {
	return &forgetful{folders: map[string]*names{"/": newNames()}, cut: -1}
}

func newNames() *names { return &names{now: map[string]*content{}, durable: map[string]*content{}} }

func (d *forgetful) call() error {
	if d.calls++; d.cut >= 0 && d.calls > d.cut {
		return errCut
	}
	return nil
}

func (n *names) change(name string, c *content) {
	n.now = maps.Clone(n.now)
	if c == nil {
		delete(n.now, name)
	} else {
		n.now[name] = c
	}
	n.since = append(n.since, n.now)
}

// after returns a file's possible contents after a power cut, or "<none>" for a missing name.
func (d *forgetful) after(path string) (possible []string) {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	for above := dir; above != "/"; above = filepath.Dir(above) {
		if d.folders[filepath.Dir(above)].durable[filepath.Base(above)] == nil {
			possible = append(possible, "<none>") // the folder is not durable
		}
	}
	n := d.folders[dir]
	for _, state := range append([]map[string]*content{n.durable}, n.since...) {
		text := "<none>"
		if c := state[base]; c != nil {
			text = c.durable
		}
		possible = append(possible, text)
	}
	slices.Sort(possible)
	return slices.Compact(possible)
}

func (d *forgetful) open(path string) (folder, error) {
	if err := d.call(); err != nil {
		return nil, err
	}
	if d.folders[path] == nil {
		return nil, fs.ErrNotExist
	}
	return &forgetfulFolder{d, d.folders[path]}, nil
}

func (d *forgetful) mkdir(path string) error {
	if err := d.call(); err != nil {
		return err
	}
	above := d.folders[filepath.Dir(path)]
	switch {
	case path == "/" || d.folders[path] != nil:
		return fs.ErrExist
	case above == nil:
		return fs.ErrNotExist
	}
	d.folders[path] = newNames()
	above.change(filepath.Base(path), &content{isFolder: true})
	return nil
}

func (d *forgetful) rename(from, to string) error {
	if err := d.call(); err != nil {
		return err
	}
	source, target := d.folders[filepath.Dir(from)], d.folders[filepath.Dir(to)]
	c := source.now[filepath.Base(from)]
	if c == nil {
		return fs.ErrNotExist
	}
	target.change(filepath.Base(to), c)
	source.change(filepath.Base(from), nil)
	return nil
}

type forgetfulFolder struct {
	d *forgetful
	*names
}

func (f *forgetfulFolder) create(name string, _ fs.FileMode) (file, error) {
	if err := f.d.call(); err != nil {
		return nil, err
	}
	if f.now[name] != nil {
		return nil, fs.ErrExist
	}
	c := &content{}
	f.change(name, c)
	return &forgetfulFile{f.d, c}, nil
}

func (f *forgetfulFolder) link(from, to string) error {
	if err := f.d.call(); err != nil {
		return err
	}
	if f.now[to] != nil {
		return fs.ErrExist
	}
	f.change(to, f.now[from])
	return nil
}

func (f *forgetfulFolder) rename(from, to string) error {
	if err := f.d.call(); err != nil {
		return err
	}
	f.change(to, f.now[from])
	f.change(from, nil)
	return nil
}

func (f *forgetfulFolder) remove(name string) error {
	if err := f.d.call(); err != nil {
		return err
	}
	f.change(name, nil)
	return nil
}

func (f *forgetfulFolder) sync() error {
	if err := f.d.call(); err != nil {
		return err
	}
	f.durable, f.since = f.now, nil
	return nil
}

func (f *forgetfulFolder) Close() error { return nil }

type forgetfulFile struct {
	d *forgetful
	*content
}

func (f *forgetfulFile) Write(p []byte) (int, error) {
	if err := f.d.call(); err != nil {
		return 0, err
	}
	f.text += string(p)
	return len(p), nil
}

func (f *forgetfulFile) Sync() error {
	if err := f.d.call(); err != nil {
		return err
	}
	f.durable = f.text
	return nil
}

func (f *forgetfulFile) Close() error { return nil }

// TestPowerCut cuts the power after each operation. The file must then be old, missing or new, but never partial.
// After a successful return it must be new.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		before string // "<none>" if the file does not exist
		write  func(d *forgetful) error
	}{
		{"create", "<none>", func(d *forgetful) error { return File{Name: "/a/f"}.write(d, true, Bytes([]byte("new"))) }},
		{"replace", "old", func(d *forgetful) error { return File{Name: "/a/f"}.write(d, false, Bytes([]byte("new"))) }},
		{"rename", "<none>", func(d *forgetful) error {
			if err := (File{Name: "/g"}).write(d, false, Bytes([]byte("new"))); err != nil {
				return err
			}
			return rename(d, "/g", "/a/f")
		}},
		{"in new folders", "<none>", func(d *forgetful) error {
			if err := makeFolder(d, "/a/b/c"); err != nil {
				return err
			}
			return File{Name: "/a/b/c/f"}.write(d, true, Bytes([]byte("new")))
		}},
		{"in a folder of a killed process", "<none>", func(d *forgetful) error {
			if err := errors.Join(d.mkdir("/k"), makeFolder(d, "/k")); err != nil {
				return err
			}
			return File{Name: "/k/f"}.write(d, true, Bytes([]byte("new")))
		}},
	} {
		path := map[string]string{"in new folders": "/a/b/c/f", "in a folder of a killed process": "/k/f"}[tc.name]
		if path == "" {
			path = "/a/f"
		}
		for cut := 0; !cutPower(t, tc.name, path, tc.before, tc.write, cut); cut++ {
		}
	}
}

func cutPower(t *testing.T, name, path, before string, write func(d *forgetful) error, cut int) (returned bool) {
	t.Helper()
	d := newForgetful()
	if err := makeFolder(d, "/a"); err != nil {
		t.Fatal(err)
	}
	if before != "<none>" {
		if err := (File{Name: path}).write(d, false, Bytes([]byte(before))); err != nil {
			t.Fatal(err)
		}
	}
	d.calls, d.cut = 0, cut
	err := write(d)
	if d.folders[filepath.Dir(path)] == nil {
		return false // no folder existed yet
	}
	got := d.after(path)
	if err == nil {
		if !slices.Equal(got, []string{"new"}) {
			t.Errorf("%s: after it has returned, a power cut leaves %q", name, got)
		}
		if cut < 5 {
			t.Errorf("%s: only %d operations", name, cut)
		}
		return true
	}
	for _, text := range got {
		if text != before && text != "new" {
			t.Errorf("%s: a power cut after %d operations leaves %q", name, cut, got)
		}
	}
	return false
}

// TestForgets checks that the test disk loses unsynced data: a file that was only renamed, and a name in an unsynced
// folder.
func TestForgets(t *testing.T) {
	t.Parallel()
	d := newForgetful()
	if err := d.mkdir("/a"); err != nil {
		t.Fatal(err)
	}
	in, err := d.open("/a")
	if err != nil {
		t.Fatal(err)
	}
	f, err := in.create("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, "text")
	if err := errors.Join(err, in.rename("x", "f")); err != nil {
		t.Fatal(err)
	}
	if got := d.after("/a/f"); !slices.Equal(got, []string{"", "<none>"}) {
		t.Errorf("without a sync: %q", got)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := d.after("/a/f"); !slices.Equal(got, []string{"<none>", "text"}) {
		t.Errorf("with a sync of the file: %q", got)
	}
	if err := in.sync(); err != nil {
		t.Fatal(err)
	}
	if got := d.after("/a/f"); !slices.Equal(got, []string{"<none>", "text"}) {
		t.Errorf("in a folder that is not durable: %q", got)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := MakeFolder(dir); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "f.toml")
	broken := errors.New("broken")
	var temporary string
	err := Create(name, func(w io.Writer) error {
		all, err := os.ReadDir(dir)
		if err == nil && len(all) == 1 {
			temporary = all[0].Name()
		}
		_, err2 := io.WriteString(w, "half")
		return errors.Join(err, err2, broken)
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, broken) || len(left) > 0 || !strings.HasPrefix(temporary, ".f-") {
		t.Errorf("%v: %v is left; the temporary file was %q", err, left, temporary)
	}
	if err := Create(name, Bytes([]byte("first"))); err != nil {
		t.Fatal(err)
	}
	if err := Create(name, Bytes([]byte("second"))); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), name) {
		t.Errorf("a file that exists: %v", err)
	}
	if text, err := os.ReadFile(name); string(text) != "first" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := (File{Name: name, Mode: 0o644}).Replace(Bytes([]byte("third"))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Rename(dir, filepath.Join(filepath.Dir(dir), "c")); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(filepath.Dir(dir), "c")
	if left, err := os.ReadDir(moved); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	if err := MakeFolder(filepath.Join(moved, "f.toml")); err == nil {
		t.Error("a file is taken for a folder")
	}
	if err := Replace(filepath.Join(moved, "none", "f"), Bytes(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
