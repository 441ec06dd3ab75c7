package s3api

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/web"
)

const (
	maxObject = 5 << 30  // bytes per PUT or part
	maxXML    = 2 << 20  // CompleteMultipartUpload with 10,000 parts takes 1.5 MB
	firstText = 16 << 10 // first block for a small document
)

// LargestRequest returns the most memory, in bytes, that a request needs: web.Options.Memory must be larger.
func LargestRequest() int64 {
	return max(elementBytes+2*maxXML+web.BlockBytes+buckets.MaxParts*decodedElement, (buckets.ReadChunks+buckets.WriteChunks)*buckets.ChunkSize)
}

// source is a request body as buckets.Source. prefer names the checksum algorithm to keep if the client sent several.
type source struct {
	body   *sigv4.Body
	prefer string
}

// Read reports errors in S3's words.
func (s source) Read(p []byte) (int, error) { return bodyErrors.Read(s.body, p) }

func (s source) CRC64NVME() (sum uint64, ok bool) { return s.body.CRC64NVME() }

// Sums returns zero sums before the body was read to its end.
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

// choose returns the preferred checksum, or else the last. ok is false without any.
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

// bodyErrors are the S3 errors for bodies that cannot be read.
var bodyErrors = web.BodyErrors{Announced: errTooLarge, TooLarge: errTooLarge, TooSlow: errTimeout, Cut: errIncomplete}

// parseCoding decides how the body is coded. As in S3 (versitygw issue 1601), only uploads may be in chunks.
func (x *request) parseCoding() (err error) {
	if x.signed != nil {
		x.coding, err = x.signed.Coding()
	} else {
		x.coding, err = sigv4.FromHTTP(x.in).Coding()
	}
	if err == nil && x.coding.IsChunked() && (!x.op.chunks || x.isCopy()) {
		err = invalidRequest("The value of x-amz-content-sha256 header is invalid.")
	}
	return err
}

// source prepares to read the body, and returns its size without chunk framing, or -1. It starts no read. The signature
// covers the body, so a body that was changed fails at its end.
func (x *request) source(o sigv4.BodyOptions) (source, int64, error) {
	web.StreamBody(x.in) // the caller reserves the memory
	if o.MaxSize == 0 {
		o.MaxSize = maxObject
	}
	if !x.coding.IsFramed() && !x.op.optionalBody {
		return source{}, 0, errNoLength
	}
	o.Cores = x.Cores
	body, err := x.coding.Body(x.in.Body, o)
	if err != nil {
		return source{}, 0, err
	}
	return source{body: body}, body.Size(), nil
}

// readXML reads and decodes a small document into v, whose type is in documents. The default limit is maxXML. It also acquires the slot.
func (x *request) readXML(v any, o sigv4.BodyOptions) error {
	if o.MaxSize == 0 {
		o.MaxSize = maxXML
	}
	t, err := x.readText(o)
	if err != nil {
		return err
	}
	return x.decode(t, v)
}

// smallBody is a body that is stored in blocks. Memory is reserved before it is allocated.
type smallBody struct {
	blocks [][]byte
	size   int
}

// reader reads the blocks in order.
func (t *smallBody) reader() io.Reader {
	all := make([]io.Reader, len(t.blocks))
	for i, b := range t.blocks {
		all[i] = bytes.NewReader(b)
	}
	return io.MultiReader(all...)
}

// readText reads a small body into blocks, and then acquires a slot: a slow client holds none while it sends. An
// unknown size counts as MaxSize.
func (x *request) readText(o sigv4.BodyOptions) (*smallBody, error) {
	src, size, err := x.source(o)
	if err != nil {
		return nil, asTextError(err)
	}
	if size < 0 {
		size = o.MaxSize
	}
	t := &smallBody{}
	size++
	for {
		block := min(size-int64(t.size), web.BlockBytes)
		if t.size == 0 {
			block = min(block, firstText)
		}
		block = max(block, 1)
		if err := web.ChargeMemory(x.in, block); err != nil {
			return nil, err
		}
		b := make([]byte, 0, block)
		for len(b) < cap(b) {
			n, err := src.Read(b[len(b):cap(b)])
			b = b[:len(b)+n]
			t.size += n
			if errors.Is(err, io.EOF) {
				t.blocks = append(t.blocks, b)
				return t, x.ready()
			}
			if err != nil {
				return nil, asTextError(err)
			}
		}
		t.blocks = append(t.blocks, b)
	}
}

const (
	leastElement = 7       // the smallest list element is <Part/>
	elementBytes = 4 << 10 // minimum for a document without a list

	// decodedElement is reserved for a decoded list element and its database row.
	decodedElement = 1 << 10
)

// decode reserves memory for the most elements that a text of this size can contain. It then releases the text.
func (x *request) decode(t *smallBody, v any) error {
	need := elementBytes + int64(t.size) + min(int64(t.size/leastElement), mostElements(v))*decodedElement
	if err := web.ChargeMemory(x.in, need); err != nil {
		return err
	}
	if err := decodeXML(t.reader(), v); err != nil {
		return err
	}
	for _, b := range t.blocks {
		web.ReleaseMemory(x.in, int64(cap(b)))
	}
	t.blocks = nil
	return nil
}

// mostElements returns how many list elements S3 accepts in a document, which limits the memory for decoding.
func mostElements(v any) int64 {
	switch v.(type) {
	case *deletion:
		return maxPage
	case *completion:
		return buckets.MaxParts
	}
	return maxSettings / leastElement
}

// asTextError reports a large document in S3's words, which differ from a large object.
func asTextError(err error) error {
	if e, ok := errors.AsType[*sigv4.Error](err); ok && e.Kind == sigv4.TooLarge {
		return errXMLTooLarge.with(Field{"MaxMessageLengthBytes", e.Expected})
	}
	return err
}
