package buckets

import (
	"bytes"
	"context"
	"io"
	"slices"
)

// segmentPage is how many parts are read from the database at once.
const segmentPage = 100

// Span is a byte range: the first offset and the length.
type Span struct{ From, Length int64 }

// Open returns a reader for part of the body of o, whose slices must not change until Close. It reads nothing before the
// first Read, which returns all errors, e.g. about a missing copy. ctx must not end before Close. The reader implements
// io.WriterTo, and is not safe for concurrent use.
func (s *Service) Open(ctx context.Context, owner AccountID, bucket BucketID, o *Object, part Span) io.ReadCloser {
	r := &reader{ctx: ctx, s: s, owner: owner, bucket: bucket, name: o.Name, upload: o.Upload, offset: part.From, left: part.Length}
	if o.Upload == "" {
		r.segments = []Segment{{Body: o.Body, Number: 1}}
	}
	return r
}

// reader reads a body's segments in turn.
type reader struct {
	ctx      context.Context //nolint:containedctx // the reading request's
	s        *Service
	owner    AccountID
	bucket   BucketID
	name     string
	upload   UploadID // if set, the store may have more segments
	segments []Segment
	current  io.ReadCloser
	offset   int64 // offset of the next byte in the whole body
	left     int64 // bytes until the end of the span
}

// Read opens the next segment when the current ends. It never returns 0 bytes without an error.
func (r *reader) Read(p []byte) (int, error) {
	for {
		if r.current == nil {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.current.Read(p)
		if err == io.EOF { //nolint:errorlint // a wrapped EOF is not the end
			err = r.current.Close()
			r.current = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// WriteTo lets io.Copy use each segment's WriterTo, which saves a copy.
func (r *reader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if r.current == nil {
			if err := r.next(); err == io.EOF { //nolint:errorlint // see Read
				return total, nil
			} else if err != nil {
				return total, err
			}
		}
		n, err := io.Copy(w, r.current)
		total += n
		if err != nil {
			return total, err
		}
		err = r.current.Close()
		r.current = nil
		if err != nil {
			return total, err
		}
	}
}

// next opens the segment at offset, and returns io.EOF after the last byte. If the body moved to other nodes since the row was read, it reads the row again,
// once.
func (r *reader) next() error {
	if r.left == 0 {
		return io.EOF
	}
	if len(r.segments) == 0 {
		if r.upload == "" {
			return io.ErrUnexpectedEOF
		}
		page, err := r.s.store.Segments(r.ctx, r.owner, r.upload, r.offset, segmentPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return io.ErrUnexpectedEOF
		}
		r.segments = page
	}
	seg := r.segments[0]
	r.segments = r.segments[1:]
	from := r.offset - seg.Start
	n := min(seg.Length-from, r.left)
	if from < 0 || n < 0 {
		return io.ErrUnexpectedEOF
	}
	r.offset, r.left = r.offset+n, r.left-n
	if n == 0 {
		r.current = io.NopCloser(bytes.NewReader(nil))
		return nil
	}
	if seg.Inline != nil {
		r.current = io.NopCloser(bytes.NewReader(seg.Inline[from : from+n]))
		return nil
	}
	path := BodyPath(r.owner, r.bucket, seg.ID, r.name)
	ref := Reference{Owner: r.owner, Bucket: r.bucket, Name: r.name, Upload: r.upload, Body: seg.Body}
	if r.upload != "" {
		ref.Number = seg.Number
	}
	opened, err := r.s.bodies.Open(r.ctx, path, ref, from, n)
	if err != nil {
		moved, ok := r.moved(&seg)
		if !ok {
			return err
		}
		ref.Body = moved
		if opened, err = r.s.bodies.Open(r.ctx, path, ref, from, n); err != nil {
			return err
		}
	}
	r.current = opened
	return nil
}

// moved reads a body's nodes again, and reports whether they changed, e.g. because of a drain.
func (r *reader) moved(seg *Segment) (b Body, ok bool) {
	if r.upload == "" {
		o, err := r.s.store.Get(r.ctx, r.owner, r.bucket, r.name)
		if err != nil {
			return b, false
		}
		b = o.Body
	} else {
		page, err := r.s.store.Segments(r.ctx, r.owner, r.upload, seg.Start, 1)
		if err != nil || len(page) == 0 {
			return b, false
		}
		b = page[0].Body
	}
	return b, b.ID == seg.ID && !slices.Equal(b.Sharks, seg.Sharks)
}

// Close ends the read at any point. It returns the open segment's error.
func (r *reader) Close() error {
	r.left = 0
	if r.current == nil {
		return nil
	}
	err := r.current.Close()
	r.current = nil
	return err
}
