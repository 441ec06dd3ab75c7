package checksum

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/minio/crc64nvme"
)

type Part struct {
	Checksum Checksum
	Size     int64
}

// Composite returns a COMPOSITE checksum: the checksum of part checksums, and their number. It returns false without
// parts or with another algorithm.
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

// FullObject returns a FULL_OBJECT checksum, which covers all bytes, from part checksums. It returns false without
// parts, with another algorithm, or if a is not a CRC.
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

// UpdateCRC64 appends data to a CRC64NVME.
func UpdateCRC64(sum uint64, data []byte) uint64 { return crc64nvme.Update(sum, data) }

// CRC64 computes a body's CRC64NVME from its chunks'.
type CRC64 struct{ whole joined }

// NewCRC64 returns an empty CRC64.
func NewCRC64() CRC64 { return CRC64{joined{polynomial: polynomials[CRC64NVME]}} }

func (c *CRC64) Append(sum uint64, size int64) { c.whole.append(sum, size) }

// Next returns the next chunk's CRC64NVME, given its size and the sum that includes it.
func (c *CRC64) Next(whole uint64, size int64) uint64 { return whole ^ c.whole.shifted(size) }

func (c *CRC64) Sum() uint64 { return c.whole.crc }

type joined struct {
	polynomial
	crc   uint64
	size  int64
	shift uint64 // x^(8 size)
}

// append multiplies the previous CRC by x^(8n). This holds for CRCs whose register starts with, and is inverted with,
// all ones, like S3's.
func (j *joined) append(sum uint64, size int64) { j.crc = j.shifted(size) ^ sum }

func (j *joined) shifted(size int64) uint64 {
	if size != j.size || j.shift == 0 { // parts have the same size, except for the last
		j.size, j.shift = size, j.powerOfX8(size)
	}
	return j.multiply(j.crc, j.shift)
}

// polynomial is a CRC's modulus without its highest term, bit-reversed: the highest bit is the coefficient of x^0.
type polynomial struct {
	poly uint64
	one  uint64
}

var polynomials = map[Algorithm]polynomial{
	CRC32:     {crc32.IEEE, 1 << 31},
	CRC32C:    {crc32.Castagnoli, 1 << 31},
	CRC64NVME: {crc64nvme.NVME, 1 << 63},
}

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
