// Package cloudtarget keeps a replica in a cloud bucket (see package cloudbucket).
package cloudtarget

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"errors"
	"io"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"holdfast/internal/cloudbucket"
	"holdfast/internal/cloudbucket/scheme"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
)

type Bucket struct{ bucket *blob.Bucket }

var _ replica.Target = (*Bucket)(nil)

// Open opens a bucket without connecting.
func Open(ctx context.Context, address string) (*Bucket, error) {
	u, err := url.Parse(address)
	if err != nil || !scheme.IsBucket(u.Scheme) {
		return nil, errcode.New(errcode.Invalid, "invalid URL: expected the scheme s3, gs or azblob")
	}
	bucket, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, &errcode.Error{Code: errcode.Unavailable, Message: "the bucket does not open", Cause: err, Fix: cloudbucket.Fix(err)}
	}
	return &Bucket{bucket}, nil
}

func (b *Bucket) Close() error { return b.bucket.Close() }

func (b *Bucket) Put(ctx context.Context, name string, body io.Reader) error {
	var begin bytes.Buffer
	_, err := io.CopyN(&begin, body, cloudbucket.Small+1)
	switch {
	case errors.Is(err, io.EOF):
		sum := md5.Sum(begin.Bytes()) //nolint:gosec // as providers do
		options := cloudbucket.Upload(sum[:])
		options.BufferSize = begin.Len()
		return b.fail("write", b.bucket.WriteAll(ctx, name, begin.Bytes(), options))
	case err != nil:
		return err
	}
	return b.fail("write", b.write(ctx, name, io.MultiReader(&begin, body)))
}

// write never makes the object visible if the context is canceled before the writer is closed.
func (b *Bucket) write(ctx context.Context, name string, body io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.bucket.NewWriter(ctx, name, cloudbucket.Upload(nil))
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, body); err != nil {
		cancel()
		_ = w.Close()
		return err
	}
	return w.Close()
}

func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.bucket.NewReader(ctx, name, nil)
	if err != nil {
		return nil, b.fail("read", err)
	}
	return r, nil
}

func (b *Bucket) List(ctx context.Context, prefix string) ([]string, error) {
	return replica.ListOf(ctx, b, prefix)
}

// Walk calls fn with the names that begin with prefix. An error of fn ends it, and is returned as it is.
func (b *Bucket) Walk(ctx context.Context, prefix string, fn func(name string) error) error {
	all := b.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		object, err := all.Next(ctx)
		if err == io.EOF { //nolint:errorlint // a closed connection wraps io.EOF, and must not end the list
			return nil
		}
		if err != nil {
			return b.fail("list", err)
		}
		if err := fn(object.Key); err != nil {
			return err
		}
	}
}

func (b *Bucket) Delete(ctx context.Context, name string) error {
	err := b.bucket.Delete(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return b.fail("delete", err)
}

// fail gives an error its code and advice. what is the verb: a missing object is errcode.NotFound only when it is read.
func (*Bucket) fail(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case what == "read" && gcerrors.Code(err) == gcerrors.NotFound:
		return errcode.Wrap(errcode.NotFound, "the replica lacks the object", err)
	}
	return &errcode.Error{Code: errcode.Unavailable, Message: "cannot " + what + " an object of the replica", Cause: err, Fix: cloudbucket.Fix(err)}
}
