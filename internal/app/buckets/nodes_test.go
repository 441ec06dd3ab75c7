package buckets

import (
	"net/url"
	"path/filepath"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// TestFolderOfRelativeData checks that bodies are in the data folder, which is relative by default, not in /buckets.
func TestFolderOfRelativeData(t *testing.T) {
	data := t.TempDir()
	t.Chdir(data)
	n := &nodes{cfg: &buckets.Config{}, folder: filepath.Join("holdfast-data", Name)}
	address := n.configured()[localNode]
	if err := buckets.CheckNodeURL(address); err != nil {
		t.Errorf("%s: %v", address, err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	where, err := filepath.EvalSymlinks(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(where, "holdfast-data", Name); u.Path != want {
		t.Errorf("the folder is %s, want %s", u.Path, want)
	}
}

func TestShownState(t *testing.T) {
	t.Parallel()
	for _, n := range []struct {
		shown shownState
		want  service.State
	}{
		{shownState{"active", ""}, service.OK}, {shownState{"draining", ""}, service.Warning}, {shownState{"active", "no such folder"}, service.Wrong},
	} {
		if c := n.shown.Cell(); c.State != n.want || c.Text != string(n.shown.state) {
			t.Errorf("%v is shown as %s %s", n.shown, c.State, c.Text)
		}
	}
}
