package buckets

import (
	"net/url"
	"path/filepath"
	"testing"

	"holdfast/internal/buckets"
)

// The data folder is relative by default. Its bodies are in it, not in /buckets.
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
