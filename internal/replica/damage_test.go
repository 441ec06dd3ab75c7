package replica

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// twoPoints returns a world whose replica contains two restore points, both restored with the identities.
func twoPoints(t *testing.T, edit func(*Options), identities ...age.Identity) *world {
	w := newWorld(t, t.TempDir(), edit)
	if len(w.r.keys.recipients) > 0 {
		w.r.keys.identities = identities
	}
	t.Cleanup(w.close)
	for range 3 {
		for _, name := range names {
			w.must(w.exec(name, insert, 50, 3000))
		}
		w.must(w.capture())
		w.must(w.ship())
	}
	return w
}

func (w *world) restoreAll() (content []string, err error) {
	into := w.t.(*testing.T).TempDir()
	done, err := Restore(context.Background(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Identities: w.r.keys.identities, Into: into})
	if err != nil {
		left, readErr := os.ReadDir(into)
		w.must(readErr)
		for _, f := range left {
			if !strings.HasSuffix(f.Name(), ".db") {
				w.t.Errorf("a failed restore leaves %s", f.Name())
			}
		}
		return nil, err
	}
	for _, path := range done.Files {
		content = append(content, dumpFile(w.t, path))
	}
	return content, nil
}

// TestDamage checks that after any change to an object, a restore names it, or does not need it and restores the
// original data.
func TestDamage(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	testdb.CheckOnly(t, "it restores after each change of an object: 4 s of processor time")
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Options){
		"plain":     nil,
		"encrypted": func(o *Options) { o.Recipients = []age.Recipient{identity.Recipient()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := twoPoints(t, edit, identity)
			want, err := w.restoreAll()
			if err != nil {
				t.Fatal(err)
			}
			damaged := 0
			for _, object := range w.objects() {
				path := filepath.Join(w.root, "target", object)
				whole, err := os.ReadFile(path)
				w.must(err)
				for kind, content := range damages(whole) {
					w.must(os.WriteFile(path, content, 0o600))
					if kind == "missing" {
						w.must(os.Remove(path))
					}
					got, err := w.restoreAll()
					switch {
					case err == nil && kind == "missing" && strings.HasPrefix(object, pointsPrefix): // the previous point is restored
					case err == nil && strings.Join(got, "") != strings.Join(want, ""):
						t.Errorf("%s of %s: restored something else", kind, object)
					case err == nil && strings.HasPrefix(object, "files/"):
						t.Errorf("%s of %s: not noticed", kind, object)
					case err != nil && !strings.Contains(err.Error(), object) && !(kind == "missing" && strings.Contains(err.Error(), strings.TrimSuffix(object, encrypted))):
						t.Errorf("%s of %s: the error does not name it: %v", kind, object, err)
					case err != nil:
						damaged++
					}
				}
				w.must(os.WriteFile(path, whole, 0o600))
			}
			if damaged < 20 {
				t.Errorf("only %d damages were noticed", damaged)
			}
		})
	}
}

func damages(whole []byte) map[string][]byte {
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1 << rand.IntN(8)
		return b
	}
	return map[string][]byte{
		"a flipped bit":          flip(rand.IntN(len(whole))),
		"a flipped first bit":    flip(0),
		"a flipped last bit":     flip(len(whole) - 1),
		"a missing half":         whole[:len(whole)/2],
		"a missing last byte":    whole[:len(whole)-1],
		"a byte that was added":  append(bytes.Clone(whole), 0),
		"missing":                nil,
		"an empty file":          {},
		"a file of another kind": []byte(strings.Repeat("holdfast ", 100)),
	}
}

func TestSwappedObjects(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := twoPoints(t, nil)
	var files []string
	for _, object := range w.objects() {
		if strings.HasPrefix(object, "files/") {
			files = append(files, filepath.Join(w.root, "target", object))
		}
	}
	for i, path := range files {
		whole, err := os.ReadFile(path)
		w.must(err)
		other, err := os.ReadFile(files[(i+1)%len(files)])
		w.must(err)
		w.must(os.WriteFile(path, other, 0o600))
		if _, err := w.restoreAll(); err == nil {
			t.Errorf("%s: not noticed", path)
		}
		w.must(os.WriteFile(path, whole, 0o600))
	}
}

// TestIdentities checks that an encrypted replica can be read only with a recipient's identity, and reveals no
// database content.
func TestIdentities(t *testing.T) {
	t.Parallel()
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w := twoPoints(t, func(o *Options) { o.Recipients = []age.Recipient{mine.Recipient()} }, mine)
	if _, err := w.restoreAll(); err != nil {
		t.Error(err)
	}
	for want, identities := range map[string][]age.Identity{
		"name the file with its private key by --identity": nil,
		"is encrypted for other recipients":                {other},
	} {
		w.r.keys.identities = identities
		if _, err := w.restoreAll(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	for _, object := range w.objects() {
		text, err := os.ReadFile(filepath.Join(w.root, "target", object))
		w.must(err)
		if object != MarkerName && (!strings.HasSuffix(object, encrypted) && !strings.HasPrefix(object, pointsPrefix) || bytes.Contains(text, []byte("CREATE"))) {
			t.Errorf("%s is not encrypted", object)
		}
	}
}

func TestAnotherServer(t *testing.T) {
	t.Parallel()
	w := twoPoints(t, nil)
	before := w.objects()
	other := newWorld(t, t.TempDir(), func(o *Options) { o.Server, o.Target = "server-2", w.target })
	t.Cleanup(other.close)
	other.must(other.capture())
	if err := other.r.ship(context.Background()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "another server's data") {
		t.Errorf("another server: %v", err)
	}
	if after := w.objects(); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("objects were %v and are %v", before, after)
	}
	w.must(os.Remove(filepath.Join(w.root, "target", MarkerName)))
	if err := other.r.ship(context.Background()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "contains objects but no") {
		t.Errorf("a target with other objects: %v", err)
	}
	if _, err := w.restoreAll(); !errcode.Is(err, errcode.NotFound) || !strings.Contains(err.Error(), "neither a replica nor backups") {
		t.Errorf("a replica without a marker: %v", err)
	}
}

// TestCopiedDataFolder checks that of two servers with the same ID, the earlier stops, and that a target without its
// marker is refused.
func TestCopiedDataFolder(t *testing.T) {
	t.Parallel()
	w := twoPoints(t, nil)
	copied := newWorld(t, t.TempDir(), func(o *Options) { o.Target = w.target })
	t.Cleanup(copied.close)
	copied.must(copied.capture())
	copied.must(copied.r.ship(context.Background()))
	w.clock.Advance(time.Hour)
	if err := w.r.maintain(context.Background()); !errcode.Is(err, errcode.Denied) {
		t.Errorf("the former server deletes objects: %v", err)
	}
	w.must(w.exec("one.db", insert, 5, 100))
	w.must(w.capture())
	before := w.objects()
	if err := w.r.ship(context.Background()); !errcode.Is(err, errcode.Denied) || !strings.Contains(err.Error(), "another server writes") {
		t.Errorf("the former server goes on: %v", err)
	}
	w.must(os.Remove(filepath.Join(w.root, "target", MarkerName)))
	copied.clock.Advance(time.Hour)
	if err := copied.r.ship(context.Background()); !errcode.Is(err, errcode.Unavailable) || len(w.objects()) != len(before)-1 {
		t.Errorf("a target without a marker: %v", err)
	}
}

func TestRestoreAtTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil)
	t.Cleanup(w.close)
	start := w.clock.Now()
	for range 4 {
		w.must(w.exec("one.db", insert, 5, 100))
		w.must(w.capture())
		w.must(w.ship())
		w.clock.Advance(10e9)
	}
	for seconds, number := range map[int]uint64{0: 1, 9: 1, 10: 2, 39: 4, 1000: 4} {
		into := t.TempDir()
		done, err := Restore(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Into: into, At: start.Add(time.Duration(seconds) * time.Second), Only: []string{"one.db"}})
		if err != nil || done.Point.Number != number || done.Newest.Number != 4 || len(done.Files) != 1 {
			t.Errorf("%d s: %+v, %v", seconds, done, err)
		}
	}
	for name, r := range map[string]Restoring{
		"a time before the first point": {At: start.Add(-1)},
		"an unknown database":           {Only: []string{"three.db"}},
	} {
		r.Target, r.Known, r.Trust, r.Into = w.target, testNames, testTrust, t.TempDir()
		if _, err := Restore(t.Context(), r); !errcode.Is(err, errcode.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	into := t.TempDir()
	w.must(os.WriteFile(filepath.Join(into, "two.db"), []byte("mine"), 0o600))
	if _, err := Restore(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Into: into}); !errcode.Is(err, errcode.Conflict) {
		t.Errorf("an existing file: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(into, "two.db")); err != nil || string(text) != "mine" {
		t.Errorf("it has %q, %v", text, err)
	}
}

func TestLostObjects(t *testing.T) {
	t.Parallel()
	w := twoPoints(t, nil)
	for _, name := range w.objects() {
		if strings.HasPrefix(name, filesAll+names[0]+"/") {
			w.must(w.target.Delete(t.Context(), name))
		}
	}
	if _, err := Look(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("before: %v", err)
	}
	w.must(w.r.tidy(t.Context(), w.clock.Now()))
	w.must(w.exec(names[0], insert, 3, 300))
	w.must(w.capture())
	w.must(w.ship())
	found, err := Look(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust})
	w.must(err)
	into := t.TempDir()
	_, err = Restore(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Into: into})
	w.must(err)
	for _, name := range names {
		if got := dumpFile(t, filepath.Join(into, name)); got != w.dump(name) {
			t.Errorf("%s is not restored as of %v", name, found.Point.Time)
		}
	}
}

func TestLostMarker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), func(o *Options) { o.Location = "file:///mnt/disk" })
	w.must(w.capture())
	w.must(w.ship())
	w.shutDown()
	mounted, away := filepath.Join(w.root, "target"), filepath.Join(w.root, "away")
	w.must(os.Rename(mounted, away))
	w.open()
	w.must(w.capture())
	if err := w.r.ship(t.Context()); err == nil || !strings.Contains(err.Error(), "is its disk mounted?") {
		t.Errorf("without its disk: %v", err)
	}
	if _, err := os.Stat(mounted); !os.IsNotExist(err) {
		t.Errorf("the folder was written: %v", err)
	}
	w.must(os.Rename(away, mounted))
	w.must(w.ship())
	w.checked = map[string]bool{}
	w.check()
	w.close()
}
