package clouddriver

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3's ETag
	"errors"
	"io"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/cloudbucket"
)

// buffers hold small bodies. The MD5 of larger bodies is checked after the upload.
var buffers = sync.Pool{New: func() any { return new([cloudbucket.Small]byte) }}

// Put implements blobs.Driver. Small bodies are sent with their MD5, which providers check. Larger bodies are streamed
// and checked afterwards.
func (d *Driver) Put(ctx context.Context, path string, body io.Reader, size int64) (int64, error) {
	if err := blobs.CheckPath(path); err != nil {
		return 0, err
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return 0, err
	}
	buffer := buffers.Get().(*[cloudbucket.Small]byte)
	defer buffers.Put(buffer)
	n, err := fill(buffer[:], body)
	u := upload{ctx: ctx, bucket: bucket, path: path, size: size, begin: buffer[:n]}
	switch {
	case blobs.IsEnd(err):
		sum := md5.Sum(u.begin) //nolint:gosec // as providers do
		u.md5 = sum[:]
	case err != nil:
		return 0, blobs.SourceError(err)
	default:
		u.rest = body
	}
	written, err := u.write()
	if err == nil && u.rest != nil {
		err = d.confirm(ctx, bucket, path, written)
	}
	switch {
	case err == nil:
		return written.size, nil
	case blobs.IsSourceError(err):
		return 0, err
	}
	return 0, d.fail(ctx, bucket, "write object", "", err)
}

// fill reads until the buffer is full or the source ends.
func fill(buffer []byte, r io.Reader) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = r.Read(buffer[n:])
		n += m
	}
	return n, err
}

// upload is a body for a provider.
type upload struct {
	ctx    context.Context //nolint:containedctx // the request's
	bucket *blob.Bucket
	path   string
	size   int64     // -1 if unknown
	begin  []byte    // first bytes; also the buffer for the rest
	rest   io.Reader // nil if begin is the whole body
	md5    []byte    // set for a whole body
}

// written describes the bytes that were sent.
type written struct {
	size int64
	md5  [md5.Size]byte
}

// write uploads the body, which becomes visible when the writer is closed, unless its context was canceled.
func (u upload) write() (written, error) {
	if u.rest == nil {
		if err := blobs.CheckSize(int64(len(u.begin)), u.size); err != nil {
			return written{}, err
		}
	}
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	w, err := u.bucket.NewWriter(ctx, u.path, cloudbucket.Upload(u.md5))
	if err != nil {
		return written{}, err
	}
	finished := false
	defer func() { // even if the body panics
		if !finished {
			cancel()
			_ = w.Close()
		}
	}()
	done, err := u.copyTo(w)
	if err == nil {
		err = u.ctx.Err()
	}
	if err != nil {
		return written{}, err
	}
	finished = true
	return done, w.Close()
}

// copyTo sends the body and computes its MD5.
func (u upload) copyTo(w io.Writer) (written, error) {
	sum := md5.New() //nolint:gosec // as providers do
	sum.Write(u.begin)
	total := int64(len(u.begin))
	if _, err := w.Write(u.begin); err != nil {
		return written{}, err
	}
	for u.rest != nil {
		n, readErr := u.rest.Read(u.begin)
		total += int64(n)
		if u.size >= 0 && total > u.size {
			return written{}, blobs.CheckSize(total, u.size)
		}
		sum.Write(u.begin[:n])
		if _, err := w.Write(u.begin[:n]); err != nil {
			return written{}, err
		}
		if blobs.IsEnd(readErr) {
			break
		} else if readErr != nil {
			return written{}, blobs.SourceError(readErr)
		}
	}
	return written{total, [md5.Size]byte(sum.Sum(nil))}, blobs.CheckSize(total, u.size)
}

var errUpload = errors.New("the object differs from what was uploaded")

// confirm deletes the stored object if it differs. Multipart objects have no known MD5.
func (d *Driver) confirm(ctx context.Context, bucket *blob.Bucket, path string, want written) error {
	got, err := bucket.Attributes(ctx, path)
	switch {
	case err != nil:
		return err
	case got.Size == want.size && (got.MD5 == nil || bytes.Equal(got.MD5, want.md5[:])):
		return nil
	}
	return errors.Join(errUpload, bucket.Delete(ctx, path))
}

// Get implements blobs.Driver.
func (d *Driver) Get(ctx context.Context, path string, offset, length int64) (blobs.Reader, error) {
	if err := errors.Join(blobs.CheckPath(path), ctx.Err()); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, blobs.ErrRange()
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := bucket.NewRangeReader(ctx, path, offset, length, nil)
	switch {
	case err == nil && offset > 0 && offset >= r.Size():
		_ = r.Close()
		return nil, blobs.ErrRange()
	case err == nil:
		return &reader{ctx: ctx, driver: d, bucket: bucket, Reader: r}, nil
	case ctx.Err() == nil && gcerrors.Code(err) != gcerrors.NotFound:
		// Providers reject a range beyond the end in different ways.
		if info, statErr := d.Stat(ctx, path); statErr == nil && offset >= info.Size {
			if offset > 0 {
				return nil, blobs.ErrRange()
			}
			return empty{}, nil
		}
	}
	return nil, d.fail(ctx, bucket, "read object", path, err)
}

type reader struct {
	ctx    context.Context //nolint:containedctx // the request's
	driver *Driver
	bucket *blob.Bucket
	*blob.Reader
}

// empty reads an empty body, for which providers reject every range.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }
func (empty) Size() int64              { return 0 }

// Read gives provider errors the codes of blobs.Driver.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if err != nil && !blobs.IsEnd(err) {
		err = r.driver.fail(r.ctx, r.bucket, "read object", "", err)
	}
	return n, err
}

// WriteTo hides the provider reader's method, whose errors lack codes.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

// Stat implements blobs.Driver.
func (d *Driver) Stat(ctx context.Context, path string) (blobs.Info, error) {
	if err := errors.Join(blobs.CheckPath(path), ctx.Err()); err != nil {
		return blobs.Info{}, err
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return blobs.Info{}, err
	}
	got, err := bucket.Attributes(ctx, path)
	if err != nil {
		return blobs.Info{}, d.fail(ctx, bucket, "read object", path, err)
	}
	return blobs.Info{Path: path, Size: got.Size, Modified: got.ModTime}, nil
}

// Delete implements blobs.Driver.
func (d *Driver) Delete(ctx context.Context, path string) error {
	if err := errors.Join(blobs.CheckFile(path), ctx.Err()); err != nil {
		return err
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return err
	}
	err = bucket.Delete(ctx, path)
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) == gcerrors.NotFound && ctx.Err() == nil:
		return d.checkMarker(ctx, bucket) // the bucket itself may be missing
	}
	return d.fail(ctx, bucket, "delete object", "", err)
}

// Copy lets the provider copy the object.
func (d *Driver) Copy(ctx context.Context, from, to string) error {
	if err := errors.Join(blobs.CheckPath(from), blobs.CheckPath(to), ctx.Err()); err != nil {
		return err
	}
	if from == to {
		_, err := d.Stat(ctx, from)
		return err
	}
	bucket, err := d.open(ctx)
	if err != nil {
		return err
	}
	if err := bucket.Copy(ctx, to, from, nil); err != nil {
		return d.fail(ctx, bucket, "copy object", from, err)
	}
	return nil
}
