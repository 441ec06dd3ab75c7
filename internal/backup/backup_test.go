package backup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/secrets"
)

// TestBackupReleases checks that files are held only during a backup, and that a failed backup frees its disk
// space before it releases them.
func TestBackupReleases(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	for _, failure := range []error{nil, full} {
		parent := t.TempDir()
		var steps []string
		step := func(name string) {
			left, err := filepath.Glob(filepath.Join(parent, "*.partial-*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(left) > 0 {
				name += " with a folder"
			}
			steps = append(steps, name)
		}
		b := &Server{Clock: clock.System, Data: t.TempDir(), Log: slog.New(slog.DiscardHandler), Services: []*service.Running{{Name: "test", Opened: &service.Opened{Files: &service.Files{
			Hold: func(ctx context.Context) (context.Context, func(), error) {
				step("hold")
				return ctx, func() { step("release") }, nil
			},
			Copy: func(_ context.Context, dir string, _ func(done, total int64)) (service.Copied, error) {
				step("copy")
				return service.Copied{}, errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), failure)
			},
		}}}}}
		_, err := b.Make(t.Context(), filepath.Join(parent, "backup"), Options{})
		if !errors.Is(err, failure) || !slices.Equal(steps, []string{"hold", "copy with a folder", "release"}) {
			t.Errorf("after %v: %q, %v", failure, steps, err)
		}
	}
}

func TestKnownBackups(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 20, 3, 0, 0, 0, time.UTC)
	s := &Server{Data: t.TempDir(), Clock: func() time.Time { return now }}
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	known := func() (names []string) {
		t.Helper()
		all, err := Known(s.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			names = append(names, filepath.Base(b.Path)+" "+b.At.Format(time.TimeOnly))
		}
		return names
	}
	if got := known(); got != nil {
		t.Errorf("before: %v", got)
	}
	for _, name := range []string{"a", "b", "c", "b"} {
		if err := os.MkdirAll(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
		if err := s.Record(path(name), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := known(), []string{"b 07:00:00", "c 06:00:00", "a 04:00:00"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := os.Remove(path("c")); err != nil {
		t.Fatal(err)
	}
	if got, want := known(), []string{"b 07:00:00", "a 04:00:00"}; !slices.Equal(got, want) {
		t.Errorf("after one was deleted: %v, want %v", got, want)
	}
	if err := os.WriteFile(filepath.Join(s.Data, RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Known(s.Data); err == nil {
		t.Error("a broken record has no error")
	}
}

// TestMakeRefuses checks that an impossible backup gives the reason and changes nothing.
func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	m := newMoving(t, t.TempDir(), "one")
	defer m.close()
	dir := t.TempDir()
	for _, folder := range []string{"empty", "full"} {
		m.must(os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	for _, file := range []string{"file", "full/file"} {
		m.must(os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600))
	}
	for to, want := range map[string]string{
		"empty": "already exists", "full": "already exists", "full/": "already exists", "file": "already exists",
		"missing/backup": "cannot create a folder in " + dir + "/missing: no such file or directory: choose",
		"file/backup":    "cannot create a folder in " + dir + "/file: not a directory: choose",
	} {
		if files, err := m.server.Make(t.Context(), dir+"/"+to, Options{}); err == nil || !strings.Contains(err.Error(), want) || files != nil {
			t.Errorf("to %s: %q, %v, want %q", to, files, err, want)
		}
	}
	for folder, want := range map[string]int{".": 3, "empty": 0, "full": 1} {
		if left, err := os.ReadDir(filepath.Join(dir, folder)); err != nil || len(left) != want {
			t.Errorf("%s contains %v, %v", folder, left, err)
		}
	}
}

// TestMakeSkipsServers checks that a backup lacks databases on database servers, and that the log says so.
func TestMakeSkipsServers(t *testing.T) {
	t.Parallel()
	m := newMoving(t, t.TempDir(), "one", "two")
	defer m.close()
	m.place("two")
	var log bytes.Buffer
	m.server.Log = slog.New(slog.NewTextHandler(&log, nil))
	dir := filepath.Join(t.TempDir(), "backup")
	files, err := m.server.Make(t.Context(), dir, Options{})
	if want := []string{filepath.Join(dir, "two.db"), filepath.Join(dir, secrets.File)}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%q, %v, want %q", files, err, want)
	}
	if says := log.String(); strings.Count(says, "level=WARN") != 1 || !strings.Contains(says, "database not copied") || !strings.Contains(says, "service=one") {
		t.Errorf("the log is\n%s", says)
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 2 {
		t.Errorf("the backup contains %v, %v", found, err)
	}
}

// TestBackupHeals checks that a backup reports a damaged file in an earlier backup, and that the next backup has the whole
// database again.
func TestBackupHeals(t *testing.T) {
	t.Parallel()
	m := newMoving(t, t.TempDir(), "one")
	defer m.close()
	m.s.Keep = ""
	m.send()
	check := func(want service.State) {
		t.Helper()
		if found := Check(t.Context(), Checked{Settings: &m.s, Data: m.server.Data}, m.now.Now()); len(found) != 1 || found[0].State != want {
			t.Errorf("check finds %+v, want %s", found, want)
		}
	}
	check(service.OK)
	files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(m.s.URL, "file://"), "files", "one.db", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	m.must(os.WriteFile(files[0], []byte("damaged"), 0o600))
	m.now.Advance(time.Minute)
	if _, err := m.server.Send(t.Context(), &Sending{Settings: m.s}); err == nil || !strings.Contains(err.Error(), "files/one.db/") || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("after damage: %v", err)
	}
	check(service.Warning)
	m.restore(m.t.TempDir(), "one", m.send()[0].At)
	check(service.OK)
}
