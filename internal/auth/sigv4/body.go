package sigv4

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/checksum"
)

// BodyOptions say how large a body may be and which digests its reader computes.
type BodyOptions struct {
	// MinSize and MaxSize limit the object size. A larger declared size is refused before reading.
	MinSize, MaxSize int64
	Compute          []checksum.Algorithm // in addition to the declared checksums
	// IgnoreChecksums ignores x-amz-checksum-* headers. In CompleteMultipartUpload these describe the object, not the
	// body.
	IgnoreChecksums bool
	// Cores, if set, computes a large body's MD5 in a goroutine. Read then fills its buffer before returning.
	Cores *Cores
}

// Body reads the object's bytes from a request body. Read returns io.EOF, and the last bytes of a declared size, only
// after verifying everything the client declared: chunk and trailer signatures, size, SHA-256, Content-MD5 and
// checksums. Any other error is an *Error, and later calls return it again. The caller must then discard all bytes.
type Body struct {
	source   io.Reader
	chunks   *chunkReader
	declared declared
	options  BodyOptions
	digests  *digests
	read     int64
	err      error
	result   Result
	verified bool
}

// Result describes a verified body.
type Result struct {
	Size   int64
	MD5    [16]byte
	SHA256 string // hexadecimal; "" if not computed
	// Checksums contains the declared and computed checksums, in the order of the constants.
	Checksums []checksum.Checksum
}

// Body returns a reader for the signed request's body. The error is an *Error.
func (s *Signed) Body(body io.Reader, o BodyOptions) (*Body, error) {
	c, err := s.Coding()
	if err != nil {
		return nil, err
	}
	return c.Body(body, o)
}

// NewBody returns a reader for an anonymous request's body.
func NewBody(r Request, body io.Reader, o BodyOptions) (*Body, error) {
	c, err := r.Coding()
	if err != nil {
		return nil, err
	}
	return c.Body(body, o)
}

// NewFormBody returns a reader for a form upload's file. fields, with lower-case names, may contain content-md5 and
// checksums. A file is never in chunks, and a SHA-256 in x-amz-content-sha256 is ignored.
func NewFormBody(fields map[string]string, file io.Reader, o BodyOptions) (*Body, error) {
	h := make(http.Header, len(fields))
	for name, value := range fields {
		if name != "x-amz-content-sha256" || strings.HasPrefix(value, streaming) {
			h.Add(name, value)
		}
	}
	c, err := Request{Header: h, ContentLength: -1}.coding(payload{mode: modeUnsigned}, nil)
	if err != nil {
		return nil, err
	}
	return c.Body(file, o)
}

func newBody(d declared, contentLength int64, source io.Reader, o BodyOptions) (*Body, error) {
	if d.size > o.MaxSize {
		return nil, tooLarge(o.MaxSize, d.size)
	}
	b := &Body{source: source, declared: d, options: o, digests: newDigests(o.Cores)}
	if d.mode == modeHash {
		b.digests.add(checksum.SHA256)
	}
	for _, a := range slices.Concat(b.Declared(), o.Compute) {
		b.digests.add(a)
	}
	// For an empty object, minio-go announces signed chunks but sends none. The size is in a signed header.
	if d.mode.isChunked() && !(d.mode == modeChunks && d.size == 0 && contentLength == 0) {
		b.chunks = newChunkReader(source, d, o.MaxSize)
		b.source = b.chunks
	}
	return b, nil
}

// Size returns the declared object size, or -1.
func (b *Body) Size() int64 { return b.declared.size }

// Declared returns the algorithms of the checksums that the client declared.
func (b *Body) Declared() []checksum.Algorithm {
	list := slices.Clone(b.declared.trailers)
	for _, c := range b.declared.sums {
		list = append(list, c.Algorithm)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Result returns false until Read has returned io.EOF or all bytes of the declared size.
func (b *Body) Result() (Result, bool) { return b.result, b.verified }

// CRC64NVME returns the checksum of the bytes read so far, or false if it is not computed.
func (b *Body) CRC64NVME() (sum uint64, ok bool) {
	h, ok := b.digests.by[checksum.CRC64NVME].(hash.Hash64)
	if !ok {
		return 0, false
	}
	return h.Sum64(), true
}

func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	n, ended, err := b.fill(p)
	if err == nil && ended {
		err = b.verify()
	}
	switch {
	case err != nil:
		b.err = err
		return 0, err
	case ended:
		b.err = io.EOF
		if n == 0 {
			return 0, io.EOF
		}
	}
	return n, nil
}

// fill reads and hashes bytes, and reports whether they are the last. It reads one piece while the MD5 of the previous
// piece is computed. It does not keep p.
func (b *Body) fill(p []byte) (n int, ended bool, err error) {
	parallel := b.options.Cores != nil && len(p) > parallelPiece && (b.declared.size < 0 || b.declared.size > parallelBody)
	for more := true; more; more = parallel && n < len(p) && !ended && err == nil {
		var read int
		read, ended, err = b.next(p[n:])
		b.digests.write(p[n : n+read])
		n += read
	}
	b.digests.wait()
	return n, ended, err
}

// next reads up to len(p) bytes from the source. It reads one byte more than allowed, to find a body that is too
// large.
func (b *Body) next(p []byte) (n int, ended bool, err error) {
	size := b.declared.size
	left := size - b.read
	if size < 0 {
		left = b.options.MaxSize - b.read + 1
	}
	if left > 0 {
		n, err = b.source.Read(p[:min(int64(len(p)), left)])
		b.read += int64(n)
	}
	switch {
	case err == io.EOF && b.read < size:
		return n, false, wrongSize(SizeMismatch, size, b.read, "the body has fewer bytes than declared")
	case err != nil && err != io.EOF:
		return n, false, readError(err)
	case b.read > b.options.MaxSize:
		return n, false, tooLarge(b.options.MaxSize, -1)
	case err == nil && b.read == size:
		return n, true, b.drain()
	}
	return n, err == io.EOF, nil
}

// drain checks that nothing follows the declared size.
func (b *Body) drain() error {
	var more [1]byte
	switch _, err := io.ReadFull(b.source, more[:]); err {
	case io.EOF:
		return nil
	case nil:
		return wrongSize(SizeMismatch, b.declared.size, -1, "the body has more bytes than declared")
	default:
		return readError(err)
	}
}

// readError returns the error for a body that cannot be read.
func readError(err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // ours is never wrapped
		return e
	}
	// Both errors mean that the connection broke. They must not look like the end of a verified body.
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return &Error{Kind: Incomplete, Message: "the body ends early", Cause: err}
}

func tooLarge(maxSize, size int64) error {
	return wrongSize(TooLarge, maxSize, size, "the object is larger than "+bytesOf(int(maxSize)))
}

// wrongSize refuses a size in bytes, or -1 if it is unknown.
func wrongSize(kind Kind, expected, size int64, message string) error {
	e := &Error{Kind: kind, Message: message, Expected: strconv.FormatInt(expected, 10)}
	if size >= 0 {
		e.Computed = strconv.FormatInt(size, 10)
	}
	return e
}

// verify compares the digests after the last byte.
func (b *Body) verify() error {
	if b.read < b.options.MinSize {
		return wrongSize(TooSmall, b.options.MinSize, b.read, "the object is smaller than "+bytesOf(int(b.options.MinSize)))
	}
	r := Result{Size: b.read}
	b.digests.md5.hash.Sum(r.MD5[:0])
	if h := b.digests.by[checksum.SHA256]; h != nil {
		r.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if b.declared.mode == modeHash && r.SHA256 != b.declared.hash {
		return &Error{
			Kind: PayloadHashMismatch, Message: "the body's SHA-256 does not match x-amz-content-sha256",
			Expected: b.declared.hash, Computed: r.SHA256,
		}
	}
	if sum := b.declared.md5; sum != "" && sum != string(r.MD5[:]) {
		return &Error{
			Kind: DigestMismatch, Message: "the body's MD5 does not match Content-MD5",
			Expected: base64.StdEncoding.EncodeToString([]byte(sum)), Computed: base64.StdEncoding.EncodeToString(r.MD5[:]),
		}
	}
	sums := b.declared.sums
	if b.chunks != nil {
		sums = slices.Concat(sums, b.chunks.sums)
	}
	for _, want := range sums {
		if got := b.digests.checksum(want.Algorithm); got != want {
			return &Error{
				Kind: DigestMismatch, Message: "the body's checksum does not match " + want.Algorithm.Header(),
				Expected: want.String(), Computed: got.String(),
			}
		}
	}
	list := slices.Concat(b.Declared(), b.options.Compute)
	slices.Sort(list)
	for _, a := range slices.Compact(list) {
		r.Checksums = append(r.Checksums, b.digests.checksum(a))
	}
	b.result, b.verified = r, true
	return nil
}
