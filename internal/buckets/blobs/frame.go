package blobs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

// A copy is a sequence of frames. A frame is a data chunk and a trailer to verify it. All chunks but the last have
// chunkSize bytes.
//
//	offset  bytes
//	     0      4  "HFB" and the version, 1
//	     4      4  flags: none is defined yet
//	     8      4  chunk index, from 0
//	    12      4  data length
//	    16      8  frame ID, also in the row
//	    24      8  CRC64NVME over the data and the 24 bytes above
//
// Numbers are big-endian. The frame ID is random per body and the same on all nodes, so frames of other bodies are
// never accepted. The checksum covers the data as stored: if data is ever encrypted, copies can be verified without a
// key.
//
// Bodies older than frames are plain: their copies are the data alone.
const (
	trailerSize = 32
	frameSize   = chunkSize + trailerSize

	frameMagic = 'H'<<24 | 'F'<<16 | 'B'<<8 | 1
)

// layout says whether a copy has trailers. The row decides for new copies, see layoutOf.
type layout int

const (
	framed layout = iota
	plain
)

// layoutOf returns the layout that copies of this body should have.
func layoutOf(b *buckets.Body) layout {
	if b.Frames.Set {
		return framed
	}
	return plain
}

func (l layout) String() string {
	if l == plain {
		return "plain"
	}
	return "framed"
}

// other returns the opposite layout.
func (l layout) other() layout { return framed + plain - l }

// trailer returns the trailer's length in bytes.
func (l layout) trailer() int {
	if l == plain {
		return 0
	}
	return trailerSize
}

// size returns how large a stored copy with length bytes of content is.
func (l layout) size(length int64) int64 {
	return length + chunkCount(length)*int64(l.trailer())
}

// offset returns where a chunk begins in the stored copy.
func (l layout) offset(index int64) int64 { return index * int64(chunkSize+l.trailer()) }

// StoredSize returns the size of each copy on its node.
func StoredSize(b *buckets.Body) int64 { return layoutOf(b).size(b.Length) }

// chunkCount returns how many chunks length bytes take; 0 for an empty body.
func chunkCount(length int64) int64 { return (length + chunkSize - 1) / chunkSize }

// chunkLength returns the content length of a chunk, which is shorter at the end.
func chunkLength(length, index int64) int { return int(min(chunkSize, length-index*chunkSize)) }

// seal writes the trailer. c.sum must be the checksum of the content.
func (c *chunk) seal(id uint64, index int64) {
	t := c.bytes[c.n : c.n+trailerSize]
	binary.BigEndian.PutUint32(t, frameMagic)
	binary.BigEndian.PutUint32(t[4:], 0)
	binary.BigEndian.PutUint32(t[8:], uint32(index))
	binary.BigEndian.PutUint32(t[12:], uint32(c.n))
	binary.BigEndian.PutUint64(t[16:], id)
	binary.BigEndian.PutUint64(t[24:], checksum.UpdateCRC64(c.sum, t[:24]))
	c.layout = framed
}

// measure computes the checksum of the content.
func (c *chunk) measure() {
	c.layout, c.sum = plain, checksum.UpdateCRC64(0, c.data())
}

var (
	errChunk = errcode.Wrap(errcode.Internal, "a chunk does not match its checksum", ErrCorrupt)
	errFrame = errcode.Wrap(errcode.Internal, "a chunk is another one than its place says", ErrCorrupt)
)

// errNewer means that an intact copy was written by a later release of Holdfast.
var errNewer = errors.New("the format of the copy is unknown")

// open verifies a frame except for its length and ID, which the caller checks.
func (c *chunk) open(index int64) error {
	c.layout = framed
	c.sum = checksum.UpdateCRC64(0, c.data())
	t := c.bytes[c.n : c.n+trailerSize]
	magic, flags := binary.BigEndian.Uint32(t), binary.BigEndian.Uint32(t[4:])
	switch {
	case checksum.UpdateCRC64(c.sum, t[:24]) != binary.BigEndian.Uint64(t[24:]):
		return errChunk
	case magic>>8 != frameMagic>>8:
		return errFrame
	case magic != frameMagic || flags != 0:
		return errcode.Wrap(errcode.Internal, fmt.Sprintf("a chunk has the format %d with flags %#x, which this release cannot read", magic&0xff, flags), errNewer)
	case binary.BigEndian.Uint32(t[8:]) != uint32(index) || binary.BigEndian.Uint32(t[12:]) != uint32(c.n):
		return errFrame
	}
	c.id = binary.BigEndian.Uint64(t[16:])
	return nil
}

// HasSize reports whether a copy may have this size. Copies without frames are smaller than StoredSize.
func HasSize(b *buckets.Body, size int64) bool {
	return size == plain.size(b.Length) || size == framed.size(b.Length)
}
