package replica

import (
	"context"
	"errors"
	"holdfast/internal/testdb"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAlso checks that each restore point contains the other files of its time, even if nothing else changed.
func TestAlso(t *testing.T) {
	t.Parallel()
	root := testdb.MemoryFolder(t)
	secrets := filepath.Join(root, "secrets.toml")
	w := newWorld(t, root, func(o *Options) {
		o.Also = map[string]string{"secrets.toml": secrets, "absent": filepath.Join(root, "absent")}
		o.Keep = 24 * time.Hour
	})
	change := func(text string) time.Time {
		t.Helper()
		w.must(os.WriteFile(secrets, []byte(text), 0o600))
		w.clock.Advance(time.Minute)
		w.must(w.capture())
		w.must(w.ship())
		return w.clock.Now()
	}
	first := change("a = 1\n")
	second := change("b = 2\n")
	restored := func(at time.Time) string {
		t.Helper()
		into := t.TempDir()
		done, err := Restore(t.Context(), Restoring{Target: w.target, Known: testNames, Trust: testTrust, Into: into, At: at, Only: names[:1]})
		w.must(err)
		if want := 2; len(done.Files) != want {
			t.Errorf("restored %v: expected a database and a file", done.Files)
		}
		text, err := os.ReadFile(filepath.Join(into, "secrets.toml"))
		w.must(err)
		if info, err := os.Stat(filepath.Join(into, "secrets.toml")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		return string(text)
	}
	if got := restored(first); got != "a = 1\n" {
		t.Errorf("the first point has %q", got)
	}
	if got := restored(second); got != "b = 2\n" {
		t.Errorf("the second point has %q", got)
	}

	// An object that no point needs is deleted, unless it was sent and is not yet published.
	w.clock.Advance(48 * time.Hour)
	w.fault = func(point string) error {
		if point == "publish" {
			return errors.New("not now")
		}
		return nil
	}
	w.must(os.WriteFile(secrets, []byte("c = 3\n"), 0o600))
	w.must(w.capture())
	if w.ship() == nil {
		t.Fatal("the fault did not happen")
	}
	w.fault = nil
	w.must(w.r.tidy(context.Background(), w.clock.Now()))
	count := 0
	for _, name := range w.objects() {
		if strings.HasPrefix(name, alsoPrefix) {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d objects are left: expected those of the newest point and of the next", count)
	}
	w.must(w.ship())
	if got := restored(time.Time{}); got != "c = 3\n" {
		t.Errorf("the newest point has %q", got)
	}
	w.close()
}
