package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"holdfast/internal/errcode"
)

// Bodies are a service's immutable files outside its database, e.g. object bodies.
type Bodies struct {
	// Each calls fn for each file in one database snapshot, one at a time, until fn fails, and returns fn's error. omitted
	// contains a line for each file that was left out.
	Each func(ctx context.Context, fn func(Body) error) (omitted []string, err error)

	// Watch makes the service call written for each new file once the file is durable and before its row is
	// committed. The service then calls settled when the row is committed (kept) or never will be. Neither call
	// blocks, and both may be called concurrently. Start calls Watch once.
	Watch func(written func(Body) (settled func(kept bool)))
}

// Body is an immutable file of a service.
type Body struct {
	Name string // may contain slashes; never reused for other content
	Size int64  // in bytes

	// Open opens a verified copy, or fails if the service deleted or moved it meanwhile. It is called later, after Each or
	// written returned, concurrently with others, and perhaps again after an error.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

const bodiesAll = "bodies/"

// bodyName returns the object's name without the encryption suffix. Bytes that a target might reject become an
// underscore and two digits.
func bodyName(service, name string) string {
	var object strings.Builder
	object.WriteString(bodiesAll + service + "/")
	begins := true
	for i := range len(name) {
		c := name[i]
		isLetter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
		isSlash := c == '/' && !begins && i < len(name)-1
		if isLetter || isSlash || c == '.' && !begins {
			object.WriteByte(c)
		} else {
			fmt.Fprintf(&object, "_%02x", c)
		}
		begins = isSlash
	}
	return object.String()
}

const (
	// stored and deflated are the first byte of a body's object: the rest is the content, or compressed by zstd.
	stored   = 0
	deflated = 1
)

const (
	// sampleSize is how much is compressed first to see whether the body shrinks.
	sampleSize = 64 << 10
	window     = 512 << 10 // of zstd, bytes
)

// encoders keeps zstd encoders for reuse.
var encoders = sync.Pool{New: func() any {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err)
	}
	return enc
}}

// pack compresses a body unless its start shrinks by less than a sixteenth. Always close the result.
func pack(content io.Reader) (io.ReadCloser, error) {
	begin := make([]byte, sampleSize)
	n, err := io.ReadFull(content, begin)
	isWhole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !isWhole {
		return nil, err
	}
	begin = begin[:n]
	enc := encoders.Get().(*zstd.Encoder)
	small := enc.EncodeAll(begin, []byte{deflated})
	if len(small) > n-n/16 {
		encoders.Put(enc)
		return io.NopCloser(io.MultiReader(bytes.NewReader([]byte{stored}), bytes.NewReader(begin), content)), nil
	}
	if isWhole {
		encoders.Put(enc)
		return io.NopCloser(bytes.NewReader(small)), nil
	}
	r, w := io.Pipe()
	go func() {
		defer encoders.Put(enc)
		_, err := w.Write([]byte{deflated})
		if err == nil {
			enc.Reset(w)
			_, err = io.Copy(enc, io.MultiReader(bytes.NewReader(begin), content))
			err = errors.Join(err, enc.Close())
		}
		_ = w.CloseWithError(err)
	}()
	return r, nil
}

// unpack reverses pack.
func unpack(packed io.Reader) (io.ReadCloser, error) {
	var method [1]byte
	if _, err := io.ReadFull(packed, method[:]); err != nil {
		return nil, err
	}
	switch method[0] {
	case stored:
		return io.NopCloser(packed), nil
	case deflated:
		dec, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(16*window))
		if err != nil {
			return nil, err
		}
		return dec.IOReadCloser(), nil
	}
	return nil, errors.New("its format is unknown")
}

// guarded can be closed during a Read, and remembers the reader's error.
type guarded struct {
	mu     sync.Mutex
	r      io.ReadCloser
	closed bool
	err    error
}

func (g *guarded) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := g.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		g.err = err
	}
	return n, err
}

func (g *guarded) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	return g.r.Close()
}

func (g *guarded) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// OpenBody opens a body of a restore point. size is its length in bytes by the database, which limits the
// decompressed data. Read returns io.EOF only if the content is intact. The error is errcode.NotFound for a missing body,
// errcode.Internal for a body that is damaged, not encrypted although there are identities, or encrypted for others, and
// errcode.Invalid if there are no identities.
func (r Restoring) OpenBody(ctx context.Context, p Point, service, name string, size int64) (io.ReadCloser, error) {
	object := bodyName(service, name)
	other := object + encrypted
	if len(r.Identities) > 0 {
		object, other = other, object
	}
	content, err := r.Target.Get(ctx, object)
	if errcode.Is(err, errcode.NotFound) {
		if err := r.refuseBody(ctx, other); err != nil {
			return nil, err
		}
		return nil, errcode.New(errcode.NotFound, "the replica lacks the object "+object)
	}
	if err != nil {
		return nil, err
	}
	return newOpened(p.keys(r.Identities), object, content, size)
}

// refuseBody returns an error if the object with the wrong encryption exists. Otherwise the body is missing.
func (r Restoring) refuseBody(ctx context.Context, object string) error {
	content, err := r.Target.Get(ctx, object)
	if err != nil {
		return nil //nolint:nilerr // the caller reports that the right object is missing
	}
	_ = content.Close()
	if len(r.Identities) > 0 {
		return errcode.Wrap(errcode.Internal, "refused", plainError(object))
	}
	_, err = keys{}.decrypt(object, nil)
	return err
}

// openedBody reads a body and checks its size and signature.
type openedBody struct {
	keys
	name    string
	object  *guarded
	plain   *io.PipeReader // decrypted and verified, but packed
	content io.ReadCloser
	left    int64 // bytes until the size in the database
}

// newOpened opens an object of a body with this size.
func newOpened(k keys, name string, object io.ReadCloser, size int64) (*openedBody, error) {
	plain, to := io.Pipe()
	o := &openedBody{keys: k, name: name, object: &guarded{r: object}, plain: plain, left: size}
	go func() { _ = to.CloseWithError(k.open(name, o.object, to)) }()
	var err error
	if o.content, err = unpack(plain); err != nil {
		err = o.fail(err)
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Read returns io.EOF only after the signature and the size were verified. Use the content only then.
func (o *openedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > o.left+1 { // one more byte shows that the body is too large
		p = p[:o.left+1]
	}
	n, err := o.content.Read(p)
	if o.left -= int64(n); o.left < 0 {
		return 0, o.fail(errors.New("it has more bytes than the database says"))
	}
	if errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, o.plain)
		if err == nil && o.left > 0 {
			err = errors.New("it has fewer bytes than the database says")
		}
		if err == nil {
			return n, io.EOF
		}
	}
	if err != nil {
		err = o.fail(err)
	}
	return n, err
}

// fail returns the error for the caller: Unavailable if the target failed, Internal if the object is damaged.
func (o *openedBody) fail(err error) error {
	switch {
	case len(o.identities) == 0 && errcode.Is(err, errcode.Invalid):
		return err
	case o.object.failed() != nil:
		return errcode.Wrap(errcode.Unavailable, "the object "+o.name+" of the replica cannot be read", err)
	}
	return errcode.Wrap(errcode.Internal, "the object "+o.name+" of the replica is damaged", err)
}

func (o *openedBody) Close() error {
	_ = o.plain.Close()
	if o.content != nil {
		_ = o.content.Close()
	}
	return o.object.Close()
}
