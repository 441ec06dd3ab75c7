package maintenance

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/optional"
)

// TestBackupVerifiesEachCopy checks that without hard links, each copy is read from the nodes and verified, not copied
// from a possibly damaged file in the backup.
func TestBackupVerifiesEachCopy(t *testing.T) {
	t.Parallel()
	const node = "local:1"
	folder, dir := filepath.Join(t.TempDir(), "node"), t.TempDir()
	if err := filedriver.Init(folder, node); err != nil {
		t.Fatal(err)
	}
	driver := filedriver.New(folder, node)
	cluster := blobs.NewCluster(blobs.Options{Clock: clock.System})
	cluster.Set(blobs.Node{ID: node, State: buckets.NodeActive, Driver: driver})
	ref := buckets.Reference{Owner: buckets.AccountID(buckets.NewUUID()), Bucket: buckets.BucketID(buckets.NewUUID()), Name: "k"}
	ref.ID, ref.Length = buckets.ObjectID(buckets.NewUUID()), 4
	b := newBody(ref)
	stored, err := cluster.Write(t.Context(), b.path, 4, 1, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	b.ref.Frames, b.ref.Sharks = optional.Some(stored.Frames), []string{node, "east:1"}
	c := newCopier(&Options{Cluster: cluster}, func(int64, int64) {})
	if c.root, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	for _, id := range b.ref.Sharks {
		if err := c.add(id, strings.Replace(id, ":", ",", 1)); err != nil {
			t.Fatal(err)
		}
	}
	var first string
	c.link = func(_ *os.Root, oldname, _ string) error {
		first = oldname
		return errors.Join(errors.ErrUnsupported, os.WriteFile(filepath.Join(dir, oldname), []byte("rot"), 0o600))
	}
	if err := c.copy(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(b.path)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(dir, "east,1", filepath.FromSlash(b.path)))
	if err != nil || !bytes.Equal(second, original) {
		t.Errorf("the second copy has %d bytes, want the %d of the node: %v", len(second), len(original), err)
	}
	if first == "" {
		t.Error("no link was tried")
	}
	if err := errors.Join(c.close(), c.root.Close(), cluster.Close(t.Context()), driver.Close()); err != nil {
		t.Error(err)
	}
}
