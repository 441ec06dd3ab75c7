package blobs

import (
	"bytes"
	"crypto/md5" //nolint:gosec // S3's ETag
	"encoding/binary"
	"hash"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

// sum verifies a whole body with CRC64NVME. Bodies from before frames existed have only a CRC32C or MD5.
type sum struct {
	want  []byte    // expected value; nil if the row has none
	hash  hash.Hash // nil for CRC64NVME, which is combined from the chunk checksums
	crc64 checksum.CRC64
}

// newSum chooses the strongest checksum in the row.
func newSum(b *buckets.Body) *sum {
	s := &sum{crc64: checksum.NewCRC64()}
	switch {
	case b.Frames.Set:
		s.want = binary.BigEndian.AppendUint64(nil, b.Frames.Value.CRC64NVME)
	case b.CRC32C.Set:
		s.want, s.hash = binary.BigEndian.AppendUint32(nil, b.CRC32C.Value), checksum.CRC32C.New()
	case len(b.MD5) == md5.Size:
		s.want, s.hash = b.MD5, md5.New() //nolint:gosec // S3's ETag
	}
	return s
}

// add takes the next chunk, which must be verified or measured.
func (s *sum) add(c *chunk) {
	s.crc64.Append(c.sum, int64(c.n))
	if s.hash != nil {
		s.hash.Write(c.data())
	}
}

// check returns errBody for a wrong sum, and errNoSum if the row has none.
func (s *sum) check() error {
	var got []byte
	if s.hash != nil {
		got = s.hash.Sum(nil)
	} else {
		got = binary.BigEndian.AppendUint64(nil, s.crc64.Sum())
	}
	switch {
	case s.want == nil:
		return errNoSum
	case !bytes.Equal(got, s.want):
		return errBody
	}
	return nil
}

var (
	errBody  = errcode.Wrap(errcode.Internal, "the copy does not match the checksum of the body", ErrCorrupt)
	errNoSum = errcode.New(errcode.Internal, "the row of the body has no checksum")
)
