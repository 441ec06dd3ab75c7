package s3api

import (
	"errors"
	"io"
	"slices"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/web"
)

const (
	maxObject = 5 << 30 // bytes of a PUT or a part
	maxXML    = 2 << 20 // a CompleteMultipartUpload with 10,000 parts has 1.5 MB
	firstText = 16 << 10
)

// LargestRequest returns the maximum memory of one request in bytes: a document, or a copy
// of a body, which is read and written.
func LargestRequest() int64 {
	return max(maxXML+1, (buckets.ReadChunks+buckets.WriteChunks)*buckets.ChunkSize)
}

// source is a buckets.Source on the body of a request.
type source struct {
	body   *sigv4.Body
	prefer string // algorithm of the checksum that is stored
}

func (s source) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bodyErrors.Of(err)
	}
	return n, err
}

// Sums implements buckets.Source.
func (s source) Sums() buckets.Sums {
	r, ok := s.body.Result()
	if !ok {
		return buckets.Sums{}
	}
	sums := buckets.Sums{MD5: r.MD5[:]}
	if c, ok := choose(r.Checksums, s.prefer); ok {
		sums.Checksum = storedChecksum(c)
	}
	return sums
}

// choose returns the checksum that is stored: the one of the preferred algorithm,
// otherwise the one that the client has declared.
func choose(all []checksum.Checksum, prefer string) (c checksum.Checksum, ok bool) {
	for _, sum := range all {
		if strings.EqualFold(sum.Algorithm.String(), prefer) {
			return sum, true
		}
		c, ok = sum, true
	}
	return c, ok
}

func storedChecksum(c checksum.Checksum) buckets.Checksum {
	return buckets.Checksum{Algorithm: c.Algorithm.String(), Value: c.String()}
}

var bodyErrors = web.BodyErrors{Announced: errTooLarge, TooLarge: errTooLarge, TooSlow: errTimeout, Cut: errIncomplete}

// source returns the body of a request that writes an object or a part.
func (x *request) source(o sigv4.BodyOptions) (source, int64, error) {
	if o.MaxSize == 0 {
		o.MaxSize = maxObject
	}
	var body *sigv4.Body
	var err error
	if x.signed != nil {
		body, err = x.signed.Body(x.in.Body, o)
	} else {
		body, err = sigv4.NewBody(sigv4.FromHTTP(x.in), x.in.Body, o)
	}
	if err != nil {
		return source{}, 0, err
	}
	return source{body: body}, body.Size(), nil
}

// readXML reads the body of a request whose body is a document with the element root.
func (x *request) readXML(root string, v any, o sigv4.BodyOptions) error {
	if o.MaxSize == 0 {
		o.MaxSize = maxXML
	}
	text, err := x.readText(o)
	if err != nil {
		return err
	}
	return decodeXML(text, root, v)
}

// readText reads a small body.
func (x *request) readText(o sigv4.BodyOptions) ([]byte, error) {
	src, size, err := x.source(o)
	if err != nil {
		return nil, asTextError(err)
	}
	if size < 0 {
		size = o.MaxSize
	}
	if err := web.ChargeMemory(x.out, x.in, min(size, firstText)); err != nil {
		return nil, err
	}
	text := make([]byte, 0, min(size, firstText)+1)
	for {
		n, err := src.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return text, x.ready()
		case err != nil:
			return nil, asTextError(err)
		case len(text) < cap(text):
			continue
		}
		more := max(min(size+1-int64(len(text)), int64(len(text))), 1)
		if err := web.ChargeMemory(x.out, x.in, more); err != nil {
			return nil, err
		}
		text = slices.Grow(text, int(more))
	}
}

// asTextError is the error of a body that is not an object.
func asTextError(err error) error {
	if e, ok := errors.AsType[*sigv4.Error](err); ok && e.Kind == sigv4.TooLarge {
		return errXMLTooLarge
	}
	return err
}
