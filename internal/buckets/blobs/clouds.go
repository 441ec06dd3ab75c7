package blobs

import "context"

// Clouds opens storage nodes in buckets of cloud providers. The zero value means that a program links no provider.
type Clouds struct {
	// Init claims an empty bucket for a node.
	Init func(ctx context.Context, address, id string) error

	// Open returns the node of a bucket prepared by Init. It does not connect.
	Open func(address, id string) (Driver, error)
}
