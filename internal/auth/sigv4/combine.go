package sigv4

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"
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
	h := a.hash()
	for _, p := range parts {
		if p.Checksum.Algorithm != a || len(p.Checksum.sum) != a.Size() {
			return "", false
		}
		h.Write([]byte(p.Checksum.sum))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)) + "-" + strconv.Itoa(len(parts)), len(parts) > 0
}

// FullObject is the checksum of a multipart object of type FULL_OBJECT: that of all its
// bytes, computed from the checksums of its parts. It returns false if there are no parts,
// they do not have the algorithm a, or a is not a CRC.
func FullObject(a Algorithm, parts []Part) (Checksum, bool) {
	p, ok := polynomials[a]
	if !ok || len(parts) == 0 {
		return Checksum{}, false
	}
	var crc uint64                 // of no bytes
	size, shift := int64(0), p.one // parts but the last have the same size
	for _, part := range parts {
		if part.Checksum.Algorithm != a || len(part.Checksum.sum) != a.Size() || part.Size < 0 {
			return Checksum{}, false
		}
		if part.Size != size {
			size, shift = part.Size, p.powerOfX8(part.Size)
		}
		// Appending n bytes multiplies the CRC of what precedes them by x^(8n). This holds for
		// CRCs whose register begins with and is inverted with all ones, as those of S3 are.
		crc = p.multiply(crc, shift) ^ number64(part.Checksum.sum)
	}
	sum := binary.BigEndian.AppendUint64(nil, crc)
	return Checksum{a, string(sum[8-a.Size():])}, true
}

func number64(sum string) (n uint64) {
	for i := range len(sum) {
		n = n<<8 | uint64(sum[i])
	}
	return n
}

// polynomial is the modulus of a CRC, without its highest term, in reversed bit order:
// the highest bit is the coefficient of x^0.
type polynomial struct {
	poly uint64
	one  uint64 // x^0
}

var polynomials = map[Algorithm]polynomial{
	CRC32:     {polyIEEE, 1 << 31},
	CRC32C:    {polyCastagnoli, 1 << 31},
	CRC64NVME: {polyNVME, 1 << 63},
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
