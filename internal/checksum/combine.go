package checksum

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/minio/crc64nvme"
)

// Part is the checksum of a part of a multipart object, and its size.
type Part struct {
	Checksum Checksum
	Size     int64
}

// Composite is the checksum of a multipart object of type COMPOSITE: the checksum of
// the checksums of its parts, and their number. It returns false if there are no
// parts or they do not have the algorithm a.
func Composite(a Algorithm, parts []Part) (string, bool) {
	h := a.New()
	for _, p := range parts {
		if p.Checksum.Algorithm != a || len(p.Checksum.sum) != a.Size() {
			return "", false
		}
		h.Write([]byte(p.Checksum.sum))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)) + "-" + strconv.Itoa(len(parts)), len(parts) > 0
}

// FullObject is a multipart object's checksum of type FULL_OBJECT: it covers all bytes, and is
// computed from the parts' checksums. It returns false if there are no parts,
// they do not have the algorithm a, or a is not a CRC.
func FullObject(a Algorithm, parts []Part) (Checksum, bool) {
	p, ok := polynomials[a]
	if !ok || len(parts) == 0 {
		return Checksum{}, false
	}
	whole := joined{polynomial: p}
	for _, part := range parts {
		if part.Checksum.Algorithm != a || len(part.Checksum.sum) != a.Size() || part.Size < 0 {
			return Checksum{}, false
		}
		whole.append(number64(part.Checksum.sum), part.Size)
	}
	sum := binary.BigEndian.AppendUint64(nil, whole.crc)
	return Checksum{a, string(sum[8-a.Size():])}, true
}

func number64(sum string) (n uint64) {
	for i := range len(sum) {
		n = n<<8 | uint64(sum[i])
	}
	return n
}

// UpdateCRC64 returns the CRC64NVME of bytes with the CRC64NVME sum, followed by data.
func UpdateCRC64(sum uint64, data []byte) uint64 { return crc64nvme.Update(sum, data) }

// CRC64 is a body's CRC64NVME, computed chunk by chunk from their CRC64NVMEs.
type CRC64 struct{ whole joined }

// NewCRC64 returns an empty CRC64.
func NewCRC64() CRC64 { return CRC64{joined{polynomial: polynomials[CRC64NVME]}} }

// Append appends a chunk with its CRC64NVME and its size.
func (c *CRC64) Append(sum uint64, size int64) { c.whole.append(sum, size) }

// Next returns the CRC64NVME of a chunk with the size, given the sum that the whole has with it.
func (c *CRC64) Next(whole uint64, size int64) uint64 { return whole ^ c.whole.shifted(size) }

// Sum returns the CRC64NVME of all chunks.
func (c *CRC64) Sum() uint64 { return c.whole.crc }

// joined is the CRC over consecutive parts.
type joined struct {
	polynomial
	crc   uint64
	size  int64  // of the last part
	shift uint64 // x^(8 size)
}

// append appends a part. Appending n bytes multiplies the CRC of what precedes them by
// x^(8n). This holds for CRCs whose register begins with and is inverted with all ones, as
// those of S3 are.
func (j *joined) append(sum uint64, size int64) { j.crc = j.shifted(size) ^ sum }

func (j *joined) shifted(size int64) uint64 {
	if size != j.size || j.shift == 0 { // parts but the last have the same size
		j.size, j.shift = size, j.powerOfX8(size)
	}
	return j.multiply(j.crc, j.shift)
}

// polynomial is the modulus of a CRC, without its highest term, in reversed bit order:
// the highest bit is the coefficient of x^0.
type polynomial struct {
	poly uint64
	one  uint64 // x^0
}

var polynomials = map[Algorithm]polynomial{
	CRC32:     {crc32.IEEE, 1 << 31},
	CRC32C:    {crc32.Castagnoli, 1 << 31},
	CRC64NVME: {crc64nvme.NVME, 1 << 63},
}

// powerOfX8 returns x^(8n) by repeated squaring.
func (p polynomial) powerOfX8(n int64) uint64 {
	result, square := p.one, p.one>>8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = p.multiply(result, square)
		}
		square = p.multiply(square, square)
	}
	return result
}

// multiply multiplies two polynomials modulo poly.
func (p polynomial) multiply(a, b uint64) (product uint64) {
	for bit := p.one; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= p.poly
		}
	}
	return product
}
