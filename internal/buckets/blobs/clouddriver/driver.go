// Package clouddriver stores bodies in a cloud bucket or a compatible server. Package cloudbucket documents the
// supported URLs.
package clouddriver

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/cloudbucket"
	"holdfast/internal/cloudbucket/scheme"
	"holdfast/internal/errcode"
)

// Driver is a node that stores bodies in a bucket, or below a key prefix (the URL parameter prefix). It opens the
// bucket on first use, so the credentials may be missing until then.
type Driver struct {
	id  string
	url *url.URL

	mu     sync.Mutex
	closed bool
	bucket *blob.Bucket
}

var _ blobs.Driver = (*Driver)(nil)

// New returns a driver for a bucket prepared by Init.
func New(address, id string) (*Driver, error) {
	u, err := url.Parse(address)
	if err != nil || !scheme.IsBucket(u.Scheme) {
		return nil, errcode.Newf(errcode.Invalid, "storage node %s: expected a URL with the scheme s3, gs, azblob or mem", id)
	}
	return &Driver{id: id, url: u}, nil
}

// Init writes the marker. It rejects a bucket that contains other objects or belongs to another node.
func Init(ctx context.Context, address, id string) error {
	d, err := New(address, id)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	bucket, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return blobs.UnavailableFor(id, "bucket does not open", err, cloudbucket.Fix(err))
	}
	defer func() { _ = bucket.Close() }()
	err = d.checkMarker(ctx, bucket)
	if gcerrors.Code(errors.Unwrap(err)) != gcerrors.NotFound {
		return err
	}
	objects, _, err := bucket.ListPage(ctx, blob.FirstPageToken, 1, nil)
	switch {
	case err != nil:
		return blobs.UnavailableFor(id, "list objects", err, cloudbucket.Fix(err))
	case len(objects) > 0:
		return errcode.Newf(errcode.Invalid, "storage node %s: the bucket has objects but no %s: expected an empty bucket", id, blobs.MarkerName)
	}
	return d.writeMarker(ctx, bucket)
}

// writeMarker claims the bucket for the node.
func (d *Driver) writeMarker(ctx context.Context, bucket *blob.Bucket) error {
	err := bucket.WriteAll(ctx, blobs.MarkerName, []byte(d.id+"\n"), &blob.WriterOptions{ContentType: "text/plain"})
	if err != nil {
		return blobs.UnavailableFor(d.id, "write "+blobs.MarkerName, err, cloudbucket.Fix(err))
	}
	return nil
}

// checkMarker returns errcode.Unavailable unless the bucket carries this node's ID.
func (d *Driver) checkMarker(ctx context.Context, bucket *blob.Bucket) error {
	r, err := bucket.NewReader(ctx, blobs.MarkerName, nil)
	var marker []byte
	if err == nil {
		marker, err = io.ReadAll(io.LimitReader(r, 1024))
		err = errors.Join(err, r.Close())
	}
	switch owner := strings.TrimSpace(string(marker)); {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case gcerrors.Code(err) == gcerrors.NotFound:
		return blobs.UnavailableFor(d.id, "the bucket has no object "+blobs.MarkerName, err, cloudbucket.Fix(err))
	case err != nil:
		return blobs.UnavailableFor(d.id, "read "+blobs.MarkerName, err, cloudbucket.Fix(err))
	case owner != d.id:
		return errcode.Newf(errcode.Unavailable, "storage node %s: the bucket is the storage node %.200q", d.id, owner)
	}
	return nil
}

// open returns the open bucket, and opens and checks it first if necessary.
func (d *Driver) open(ctx context.Context) (*blob.Bucket, error) {
	d.mu.Lock()
	bucket, closed := d.bucket, d.closed
	d.mu.Unlock()
	if closed {
		return nil, errcode.Newf(errcode.Unavailable, "storage node %s is closed", d.id)
	}
	if bucket != nil {
		return bucket, nil
	}
	// The lock is not held here, because a provider may be slow and each caller has its own context.
	bucket, err := blob.OpenBucket(ctx, d.url.String())
	if err != nil {
		return nil, blobs.UnavailableFor(d.id, "bucket does not open", err, cloudbucket.Fix(err))
	}
	if d.url.Scheme == "mem" {
		err = d.writeMarker(ctx, bucket)
	} else {
		err = d.checkMarker(ctx, bucket)
	}
	if err != nil {
		_ = bucket.Close()
		return nil, err
	}
	return d.keep(bucket), nil
}

// keep stores the bucket for later calls. If another call was faster, its bucket is used.
func (d *Driver) keep(bucket *blob.Bucket) *blob.Bucket {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bucket == nil && !d.closed {
		d.bucket = bucket
		return bucket
	}
	_ = bucket.Close() // its operations fail if the driver is closed
	if d.bucket != nil {
		return d.bucket
	}
	return bucket
}

// Close implements blobs.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.bucket == nil {
		return nil
	}
	err := d.bucket.Close()
	d.bucket = nil
	return err
}

// fail gives a provider error a code. With a path, a missing object is errcode.NotFound, unless the whole bucket is
// missing.
func (d *Driver) fail(ctx context.Context, bucket *blob.Bucket, what, path string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case gcerrors.Code(err) == gcerrors.NotFound && path != "":
		if err := d.checkMarker(ctx, bucket); err != nil {
			return err
		}
		return blobs.NotFound(d.id, path)
	}
	return blobs.UnavailableFor(d.id, what, err, cloudbucket.Fix(err))
}

// Space only checks the marker, because buckets have no size.
func (d *Driver) Space(ctx context.Context) (blobs.Space, error) {
	if err := ctx.Err(); err != nil {
		return blobs.Space{}, err
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return blobs.Space{}, err
	}
	return blobs.Unlimited, d.checkMarker(ctx, bucket)
}
