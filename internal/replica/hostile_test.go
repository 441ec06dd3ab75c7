package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// renaming is a target that holds the objects for one.db under another name, as a bucket allows.
type renaming struct {
	Target
	keys

	name string
}

func (r renaming) List(ctx context.Context, prefix string) (names []string, err error) {
	hostile, good := filesAll+r.name+"/", filesAll+"one.db/"
	names, err = r.Target.List(ctx, strings.Replace(prefix, hostile, good, 1))
	for i := range names {
		names[i] = strings.Replace(names[i], good, hostile, 1)
	}
	return names, err
}

func (r renaming) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	good := strings.Replace(name, filesAll+r.name+"/", filesAll+"one.db/", 1)
	if good == name {
		return r.Target.Get(ctx, name)
	}
	var content bytes.Buffer
	err := get(ctx, r.Target, r.keys, good, &content)
	return r.seal(name, &content), err
}

// TestRestoreStaysInFolder restores points that the decoder of points would refuse: the names still do not leave the
// folder.
func TestRestoreStaysInFolder(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := twoPoints(t, func(o *Options) { o.Also = map[string]string{"secrets.toml": secretsFile(t)} })
	listed, err := listPoints(t.Context(), w.target)
	w.must(err)
	good, err := pointOf(w.target, listed[len(listed)-1].name)
	w.must(err)
	target := Folder(filepath.Join(w.root, "target"))
	w.must(os.WriteFile(filepath.Join(w.root, "x"), []byte("mine"), 0o600))
	for _, name := range testdb.HostileNames {
		for field, p := range map[string]Point{
			"database": {Files: map[string]Position{name: good.Files["one.db"]}},
			"run":      {Files: map[string]Position{"one.db": {Run: name, TXID: good.Files["one.db"].TXID}}},
			"file":     {Also: map[string]string{name: good.Also["secrets.toml"]}},
			"object":   {Also: map[string]string{"secrets.toml": name}},
		} {
			p.Repository, p.Key = good.Repository, good.Key
			into := filepath.Join(w.root, "deep", "into")
			w.must(os.MkdirAll(into, 0o700))
			before := testdb.Tree(t, w.root, into)
			from := Restoring{Target: target, Into: into}
			if field == "database" {
				from.Target = renaming{target, w.r.keys.unencrypted(), name}
			}
			files, err := from.fill(t.Context(), p, slices.Collect(maps.Keys(p.Files)))
			if err == nil || strings.Contains(err.Error(), "signature") {
				t.Errorf("%s %.20q: restored %v, %v", field, name, files, err)
			}
			testdb.WantTree(t, field, before, testdb.Tree(t, w.root, into))
			w.must(os.RemoveAll(into))
		}
	}
}

// TestHostileTarget replaces objects in a folder by links, FIFOs and folders. The target does not read their
// targets, and waits for nobody.
func TestHostileTarget(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	target := Folder(filepath.Join(root, "target"))
	put := func(name string) error { return target.Put(t.Context(), name, bytes.NewReader([]byte("good"))) }
	secret, fifo := filepath.Join(root, "secret"), filepath.Join(root, "fifo")
	if err := errors.Join(put(MarkerName), put("a/object"), os.WriteFile(secret, []byte("secret"), 0o600), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(string(target), name) }
	for kind, plant := range map[string]func(path string) error{
		"link out":        func(path string) error { return os.Symlink(secret, path) },
		"relative link":   func(path string) error { return os.Symlink("../secret", path) },
		"link to FIFO":    func(path string) error { return os.Symlink(fifo, path) },
		"FIFO":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":          func(path string) error { return os.Mkdir(path, 0o700) },
		"link to devices": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for _, name := range []string{"planted", "a/planted", "planted/object"} {
			first := in(name)
			if filepath.Base(first) == "object" {
				first = filepath.Dir(first)
			}
			if err := plant(first); err != nil {
				t.Fatal(err)
			}
			outside := testdb.Tree(t, root, string(target), fifo)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if body, err := target.Get(context.Background(), name); err == nil {
					text, _ := io.ReadAll(io.LimitReader(body, 100))
					t.Errorf("%s at %s: read %q", kind, name, text)
				}
				_ = put(name) // may replace the link itself
				_ = target.Delete(context.Background(), name)
			}()
			select {
			case <-done:
			case <-time.After(testdb.Patient(30 * time.Second)):
				t.Fatalf("%s at %s: the target waits", kind, name)
			}
			testdb.WantTree(t, kind+" at "+name, outside, testdb.Tree(t, root, string(target), fifo))
			if err := os.RemoveAll(first); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// endless is a target to which somebody added objects without end.
type endless struct{ Target }

func (e endless) Walk(_ context.Context, _ string, fn func(string) error) error {
	name := pointsPrefix + strings.Repeat("x", 1000)
	for {
		if err := fn(name); err != nil {
			return err
		}
	}
}

// TestEndlessTarget checks that a listing without an end fails before the names fill the memory.
func TestEndlessTarget(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	names, err := ListOf(t.Context(), endless{}, pointsPrefix)
	if !errcode.Is(err, errcode.Unavailable) || !strings.Contains(err.Error(), "too many objects") {
		t.Errorf("%d names, %v", len(names), err)
	}
	if err := checkEmpty(t.Context(), endless{}); !errcode.Is(err, errcode.Denied) {
		t.Errorf("a target without a marker: %v", err)
	}
}
