package buckets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
)

// TestTemporaryFilesOfDeadProcesses checks that files from running servers and unknown processes remain.
func TestTemporaryFilesOfDeadProcesses(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, _ := openBuckets(t, data)
	folder := filepath.Join(data, Name, "v2", "x")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	killed, alive, me := newProcesses(s, "killed0"), newProcesses(s, "alive00"), newProcesses(s, "me00000")
	for _, p := range []*processes{killed, alive, me} {
		if err := p.register(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(filedriver.TemporaryOf(p.id) + "0123456789abcdef")
	}
	unknown := blobs.TemporaryPrefix + "0123456789abcdef"
	write(unknown)
	if err := killed.lock.Release(); err != nil { // as if it died
		t.Fatal(err)
	}
	for range 2 {
		if err := me.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	names := func(dir string) (all []string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	want := []string{unknown, filedriver.TemporaryOf(alive.id) + "0123456789abcdef", filedriver.TemporaryOf(me.id) + "0123456789abcdef"}
	if got := names(folder); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("files %q, want %q", got, want)
	}
	alive.unregister(true)
	me.unregister(true)
	if left := strings.Join(names(me.folder), " "); left != "" {
		t.Errorf("registrations: %s", left)
	}
}
