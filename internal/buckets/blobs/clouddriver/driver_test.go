//test:unraced compiling gRPC for the race detector takes a minute
//test:check linking the clouds' clients takes seconds

package clouddriver_test

import (
	"testing"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/clouddriver"
	"holdfast/internal/buckets/blobs/drivertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t testing.TB) blobs.Driver {
		d, err := clouddriver.New("mem://", "dc1:memory")
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}
