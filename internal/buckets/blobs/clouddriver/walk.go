package clouddriver

import (
	"context"
	"iter"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"

	"holdfast/internal/buckets/blobs"
)

// Walk lists all objects on Azure, which cannot start after a name.
func (d *Driver) Walk(ctx context.Context, after string) iter.Seq2[blobs.Info, error] {
	return func(yield func(blobs.Info, error) bool) {
		bucket, err := d.open(ctx)
		if err != nil {
			yield(blobs.Info{}, err)
			return
		}
		list := bucket.List(&blob.ListOptions{BeforeList: func(as func(any) bool) error {
			beginAfter(as, after)
			return nil
		}})
		for {
			if err := ctx.Err(); err != nil {
				yield(blobs.Info{}, err)
				return
			}
			o, err := list.Next(ctx)
			switch {
			case blobs.IsEnd(err):
				return
			case err != nil:
				yield(blobs.Info{}, d.fail(ctx, bucket, "list objects", "", err))
				return
			case o.Key <= after || blobs.CheckPath(o.Key) != nil:
				continue
			}
			if !yield(blobs.Info{Path: o.Key, Size: o.Size, Modified: o.ModTime}, nil) {
				return
			}
		}
	}
}

// beginAfter makes the provider start the list after a name. Without it, Walk skips names itself.
func beginAfter(as func(any) bool, after string) {
	if after == "" {
		return
	}
	var ofS3 *s3.ListObjectsV2Input
	if as(&ofS3) {
		ofS3.StartAfter = aws.String(aws.ToString(ofS3.Prefix) + after)
		return
	}
	var ofGoogle *storage.Query
	if as(&ofGoogle) {
		ofGoogle.StartOffset = ofGoogle.Prefix + after
	}
}
