package maintenance

import (
	"context"
	"errors"
	"math/rand/v2"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/optional"
)

// AddFrames adds frames to a body from before frames existed: it verifies a whole copy, sets the frames in the row,
// and rewrites the copies. It resumes an interrupted call and does nothing if the row has changed. pace may be nil.
func AddFrames(ctx context.Context, store buckets.References, cluster *blobs.Cluster, ref buckets.Reference, pace blobs.Pace) error {
	if ref.Garbage || len(ref.Sharks) == 0 {
		return nil
	}
	path := buckets.BodyPath(ref.Owner, ref.Bucket, ref.ID, ref.Name)
	verified := make([]blobs.Verified, len(ref.Sharks))
	bad := make([]error, len(ref.Sharks))
	for i, node := range ref.Sharks {
		if verified[i], bad[i] = cluster.Verify(ctx, path, ref, node, pace); bad[i] == nil && !ref.Frames.Set {
			set, err := setFrames(ctx, store, &ref, verified[i])
			if err != nil || !set {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if !ref.Frames.Set {
		return errors.Join(bad...)
	}
	var failed []error
	for i, node := range ref.Sharks {
		if bad[i] != nil || !verified[i].Framed {
			failed = append(failed, cluster.Restore(ctx, path, ref, node))
		}
	}
	return errors.Join(failed...)
}

// setFrames sets the frames in the row. It keeps the frames of an existing copy, because the database may be older
// than the nodes after a restore.
func setFrames(ctx context.Context, store buckets.References, ref *buckets.Reference, v blobs.Verified) (bool, error) {
	if !v.Framed {
		v.Frames.ID = rand.Uint64()
	}
	set, err := store.SetFrames(ctx, *ref, v.Frames)
	if set {
		ref.Frames, ref.CRC32C = optional.Some(v.Frames), optional.Of[uint32]{}
	}
	return set, err
}
