//test:unraced the race detector makes it ten times as slow

package filedriver_test

import (
	"testing"

	"go.uber.org/goleak"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/drivertest"
	"holdfast/internal/buckets/blobs/filedriver"
)

const id = "dc1:1.stor"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) (d *filedriver.Driver, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := filedriver.Init(dir, id); err != nil {
		t.Fatal(err)
	}
	return filedriver.New(dir, id), dir
}

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t testing.TB) blobs.Driver {
		d, _ := open(t)
		return d
	})
}
