package restore

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

// TestDumpTime checks a real dump's moment: the file's time, and pg_dump's header if the file was copied without
// its time, in whatever time zone it was made.
func TestDumpTime(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	dump := testdb.PostgresProgram(t, "pg_dump")
	for _, zone := range []string{"UTC", "Pacific/Kiritimati", "Etc/GMT+12"} { // 14 hours before and 12 hours behind UTC
		file := filepath.Join(t.TempDir(), "dump")
		cmd := exec.Command(dump, "--format=custom", "--file="+file, url)
		cmd.Env = append(os.Environ(), "TZ="+zone)
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := DumpTime(t.Context(), file); err != nil || !at.Equal(info.ModTime()) {
			t.Errorf("%s: %v, %v, want the file's time %v", zone, at, err, info.ModTime())
		}
		later := begun.AddDate(0, 0, 3)
		if err := os.Chtimes(file, later, later); err != nil {
			t.Fatal(err)
		}
		if at, err := DumpTime(t.Context(), file); err != nil || at.After(begun) || at.Before(begun.Add(-2*farthestZone)) {
			t.Errorf("%s: %v, %v of a copy, want at most 30 hours before %v", zone, at, err, begun)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("no dump"), 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := DumpTime(t.Context(), other); err == nil {
		t.Errorf("a file that is no dump is from %v", at)
	}
}
