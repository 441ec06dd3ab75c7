// Package cloud lets the server keep its replica, its backups and the bodies of objects in buckets of cloud providers.
package cloud

import (
	"context"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/clouddriver"
	"holdfast/internal/engines"
	"holdfast/internal/replica/cloudtarget"
	"holdfast/internal/replica/location"
)

// Engine returns all providers of package cloudbucket.
func Engine() engines.Engine {
	return engines.Engine{
		Clouds: func(ctx context.Context, address string) (location.Bucket, error) {
			return cloudtarget.Open(ctx, address)
		},
		Nodes: blobs.Clouds{
			Init: clouddriver.Init,
			Open: func(address, id string) (blobs.Driver, error) { return clouddriver.New(address, id) },
		},
	}
}
