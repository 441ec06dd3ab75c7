package imports

import (
	"context"
	"crypto/md5" //nolint:gosec // S3's entity tags
	"encoding/hex"
	"hash"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

var (
	errChanged = errcode.New(errcode.Conflict, "the object changed while it was read")
	errDamaged = errcode.New(errcode.Unavailable, "the body does not match the source's entity tag or checksum")
	errRange   = errcode.New(errcode.Unavailable, "the source ignores ranges, so a read that was interrupted cannot continue")
	errLong    = errcode.New(errcode.Unavailable, "the source sent more bytes than it announced")
)

// body reads an object from the source. It implements buckets.Source: io.EOF means that the bytes match the entity
// tag or the checksum, if either can be computed.
type body struct {
	ctx    context.Context //nolint:containedctx // Read takes no context
	source *Source
	bucket string
	from   Listed

	in       io.ReadCloser // nil if the next read must request a range
	n        int64         // bytes so far
	failures int           // since the last byte

	md5        hash.Hash
	hasMD5Tag  bool        // the entity tag is the MD5
	layouts    []*partSums // sums for each possible division into parts
	isKnown    bool        // the source told the division, so a mismatch is damage
	sum        hash.Hash   // for algorithm; nil if there is no checksum to verify
	algorithm  checksum.Algorithm
	want       buckets.Checksum // checksum from the source
	isVerified bool             // more than the length could be verified
	err        error            // for all further reads
}

// newBody reads the answer out, which may have begun. Encryption changes the entity tag, so then only a checksum can
// verify the bytes.
func (s *Source) newBody(ctx context.Context, bucket string, from Listed, out *s3.GetObjectOutput) *body {
	b := &body{ctx: ctx, source: s, bucket: bucket, from: from, in: out.Body, md5: md5.New(), want: checksumOf(out)} //nolint:gosec // as above
	if n := partsOf(from.ETag); !isEncrypted(out) {
		b.hasMD5Tag = n == 0
		if n > 0 {
			b.layouts, b.isKnown = s.layouts(ctx, bucket, &from)
		}
	}
	if a, ok := checksum.ParseAlgorithm(b.want.Algorithm); ok && !b.want.Composite {
		b.algorithm, b.sum = a, a.New()
	}
	return b
}

// Read continues with a range request after a failed read. Only a verified body ends with io.EOF.
func (b *body) Read(p []byte) (n int, err error) {
	for b.err == nil && n == 0 && len(p) > 0 {
		n, err = b.read(p)
		b.add(p[:n])
		switch {
		case b.n > b.from.Size:
			b.err = errLong
		case b.n == b.from.Size && (err != nil || n == 0):
			b.err = b.verify()
		case err != nil:
			b.err = b.failed(err)
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// read requests the rest of the object after a failure.
func (b *body) read(p []byte) (int, error) {
	if b.in == nil {
		if b.n == b.from.Size {
			return 0, io.EOF
		}
		offset := strconv.FormatInt(b.n, 10)
		out, err := b.source.get(b.ctx, b.bucket, &b.from, b.from.ETag, "bytes="+offset+"-")
		if codeOf(err) == "PreconditionFailed" || isGone(err) {
			b.failures = attempts
			return 0, errChanged
		} else if err != nil {
			return 0, readable("read the object", err)
		}
		b.in = out.Body
		if !strings.HasPrefix(aws.ToString(out.ContentRange), "bytes "+offset+"-") {
			return 0, errRange
		}
	}
	// The stall timeout must not depend on how fast the target is.
	in := b.in
	watch := time.AfterFunc(stallsAfter, func() { _ = in.Close() })
	n, err := in.Read(p)
	watch.Stop()
	return n, err
}

// add hashes bytes, and counts as progress.
func (b *body) add(p []byte) {
	if len(p) == 0 {
		return
	}
	b.failures = 0
	b.n += int64(len(p))
	b.md5.Write(p)
	if b.sum != nil {
		b.sum.Write(p)
	}
	for _, l := range b.layouts {
		_, _ = l.Write(p)
	}
}

// failed waits before the next attempt, twice as long each time, and gives up after several attempts without a byte.
func (b *body) failed(err error) error {
	b.Close()
	if b.failures++; b.failures >= attempts || b.ctx.Err() != nil {
		return readable("read the object", err)
	}
	wait := min(longestWait, 100*time.Millisecond<<b.failures)
	select {
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-time.After(wait/2 + rand.N(wait/2)):
		return nil
	}
}

// verify returns io.EOF if the bytes match, or cannot be verified.
func (b *body) verify() error {
	if b.hasMD5Tag {
		if hex.EncodeToString(b.md5.Sum(nil)) != b.from.ETag {
			return errDamaged
		}
		b.isVerified = true
	}
	if b.sum != nil {
		if checksum.Of(b.algorithm, b.sum).String() != b.want.Value {
			return errDamaged
		}
		b.isVerified = true
	}
	for _, l := range b.layouts {
		if l.etag() == b.from.ETag {
			b.isVerified = true
			return io.EOF
		}
	}
	if b.isKnown && !b.isVerified {
		return errDamaged
	}
	return io.EOF
}

// Sums returns the MD5, and the source's checksum if it matched or the bytes are verified otherwise.
func (b *body) Sums() buckets.Sums {
	s := buckets.Sums{MD5: b.md5.Sum(nil)}
	if b.sum != nil || b.isVerified {
		s.Checksum = b.want
	}
	return s
}

// Close ends the request to the source.
func (b *body) Close() {
	if b.in != nil {
		_ = b.in.Close()
		b.in = nil
	}
}

var _ buckets.Source = (*body)(nil)
