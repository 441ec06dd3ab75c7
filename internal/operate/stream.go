package operate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"holdfast/internal/errcode"
)

const (
	Lines = "application/x-ndjson"

	// LargestLines is About.Largest for line-by-line uploads, limited only by disk space.
	LargestLines = 64 << 30
)

type File struct {
	Name  string
	Size  int64
	Write func(io.Writer) error

	sent func(error)
}

// Send returns an error if the size differs.
func (f *File) Send(to io.Writer) error {
	err := f.send(to)
	if f.sent != nil {
		f.sent(err)
	}
	return err
}

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

// NewDownload declares a download. In is as for NewRead.
func NewDownload[In any](about About, fn func(context.Context, In, Progress) (File, error)) Operation {
	o, _ := declare[In, struct{}](Download, about)
	o.run = runner(o.Inputs, false, func(ctx context.Context, in In, c call) (File, error) { return fn(ctx, in, c.progress) }, func(_ In, f File) *Result {
		return &Result{File: &f}
	})
	return o
}

type Body struct {
	io.Reader
	Size int64
}

// NewUpload declares an upload: a job with a file as input. A read error fails it even if fn ignores the error.
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

func errLarge(most int64) error {
	return errcode.Newf(errcode.TooLarge, "the file is larger than %d bytes", most)
}

type bodyReader struct {
	Body
	largest, n int64
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

func (o *Operation) Upload(ctx context.Context, values map[string]string, body Body, progress Progress) (*Result, error) {
	return o.call(ctx, values, call{progress, &body})
}
