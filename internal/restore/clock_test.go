package restore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClockBehind checks that a restore refuses a machine whose clock is behind the restored data: clients would take
// new writes for old ones.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	from := backupFolderIn(t, root)
	info, err := os.Stat(filepath.Join(from, "buckets.db"))
	if err != nil {
		t.Fatal(err)
	}
	for behind, refused := range map[time.Duration]bool{0: false, clockTolerance: false, clockTolerance + 2*time.Second: true, 3 * time.Hour: true} {
		data := filepath.Join(root, "data of "+behind.String())
		r := &Request{From: from, Data: data, Clock: func() time.Time { return info.ModTime().Add(-behind) }, Finish: func(context.Context, *Finishing) error { return nil }}
		_, looked := Look(t.Context(), r)
		_, err := Run(t.Context(), r)
		if (looked != nil) != refused || (err != nil) != refused || refused && !strings.Contains(err.Error(), "set the clock first") {
			t.Errorf("%v behind: %v, %v", behind, looked, err)
		}
		if _, err := os.Stat(data); os.IsNotExist(err) != refused {
			t.Errorf("%v behind: the data folder: %v", behind, err)
		}
	}
}
