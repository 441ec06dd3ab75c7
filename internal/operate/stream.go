package operate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"holdfast/internal/errcode"
)

const (
	// Lines is About.Media for files with a JSON value on each line.
	Lines = "application/x-ndjson"

	// LargestLines is About.Largest for line-by-line uploads, limited only by disk space.
	LargestLines = 64 << 30
)

// File is a download's result. The download function already checked that the file exists.
type File struct {
	Name  string                // the name that browsers save, without a folder
	Size  int64                 // in bytes; 0: unknown
	Write func(io.Writer) error // writes the whole file; called once

	sent func(error) // records the download, with the error from sending
}

// Send writes the file, and records a download with secrets. The caller of Run must call it once. It returns an error if
// Write fails or the size differs: the receiver must then not keep the file.
func (f *File) Send(to io.Writer) error {
	err := f.send(to)
	if f.sent != nil {
		f.sent(err)
	}
	return err
}

// send is Send without the record.
func (f *File) send(to io.Writer) error {
	w := &counter{to: to}
	if err := f.Write(w); err != nil {
		return err
	}
	if f.Size > 0 && w.n != f.Size {
		return fmt.Errorf("%s: %d of %d bytes", f.Name, f.Size, w.n)
	}
	return nil
}

type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// NewDownload declares a download. In is as for NewRead, but subjects are not required. fn checks its input and finds
// the file, so that errors can still be answered; File.Write then only writes. The Progress is valid until Write
// returned. About.Media and About.Access are required.
func NewDownload[In any](about About, fn func(context.Context, In, Progress) (File, error)) Operation {
	o, _ := declare[In, struct{}](Download, about)
	o.run = runner(o.Inputs, false, func(ctx context.Context, in In, c call) (File, error) { return fn(ctx, in, c.progress) }, func(_ In, f File) *Result {
		return &Result{File: &f}
	})
	return o
}

// Body is an upload's file. The API passes the request body without its own limit; NewUpload limits it.
type Body struct {
	io.Reader
	Size int64 // announced size in bytes; 0: unknown
}

// NewUpload declares an upload: a job with a file as input. The reader that fn gets fails with TooLarge after
// About.Largest bytes, and with Invalid if the file ends before its announced size. Such an error fails the upload
// even if fn ignores it. About.Media and About.Largest are required.
func NewUpload[In any, Out Changed](about About, fn func(context.Context, In, Body, Progress) (Out, error)) Operation {
	o := newChange(Upload, about, func(ctx context.Context, in In, c call) (out Out, err error) {
		if c.body == nil {
			return out, errcode.New(errcode.Invalid, "a file is required")
		}
		if c.body.Size > about.Largest {
			return out, errLarge(about.Largest)
		}
		r := &bodyReader{Body: *c.body, largest: about.Largest}
		out, err = fn(ctx, in, Body{r, c.body.Size}, c.progress)
		if err == nil {
			err = r.err
		}
		return out, err
	})
	if about.Largest <= 0 {
		panic(fmt.Sprintf("operation %q: expected the size of the largest file", o.Path))
	}
	return o
}

func errLarge(maxBytes int64) error {
	return errcode.Newf(errcode.TooLarge, "the file is larger than %d bytes", maxBytes)
}

// bodyReader enforces NewUpload's limits and remembers the first error.
type bodyReader struct {
	Body
	largest, n int64 // bytes read so far
	err        error
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.Body.Read(p)
	r.n += int64(n)
	switch isEnd := errors.Is(err, io.EOF); {
	case r.n > r.largest:
		r.err = errLarge(r.largest)
	case isEnd && r.n < r.Size:
		r.err = errcode.Newf(errcode.Invalid, "the file ended after %d of %d bytes", r.n, r.Size)
	case err != nil && !isEnd:
		r.err = err
	default:
		return n, err
	}
	return 0, r.err
}

// Upload is Run for an upload. It reads body but does not close it. Other kinds ignore body.
func (o *Operation) Upload(ctx context.Context, values map[string]string, body Body, progress Progress) (*Result, error) {
	return o.call(ctx, values, call{progress, &body})
}
