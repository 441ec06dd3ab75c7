package sigv4

import (
	"crypto/md5"  //nolint:gosec // the protocol's
	"crypto/sha1" //nolint:gosec // the protocol's
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"strings"
)

// Algorithm is one of the checksums of S3.
type Algorithm uint8

// The algorithms.
const (
	CRC32 Algorithm = iota
	CRC32C
	CRC64NVME
	SHA1
	SHA256
	numAlgorithms = iota
)

var algorithms = [numAlgorithms]struct {
	name, header string
	size         int
}{
	CRC32:     {"CRC32", "x-amz-checksum-crc32", 4},
	CRC32C:    {"CRC32C", "x-amz-checksum-crc32c", 4},
	CRC64NVME: {"CRC64NVME", "x-amz-checksum-crc64nvme", 8},
	SHA1:      {"SHA1", "x-amz-checksum-sha1", sha1.Size},
	SHA256:    {"SHA256", "x-amz-checksum-sha256", sha256.Size},
}

// ParseAlgorithm reads the name of an algorithm, in any case.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for a := range algorithms {
		if strings.EqualFold(name, algorithms[a].name) {
			return Algorithm(a), true
		}
	}
	return 0, false
}

// String is the name as S3 writes it: CRC64NVME.
func (a Algorithm) String() string { return algorithms[a].name }

// Header is the name of the header that has the checksum.
func (a Algorithm) Header() string { return algorithms[a].header }

// Size is the length of the checksum in bytes.
func (a Algorithm) Size() int { return algorithms[a].size }

// Polynomials in reversed bit order, as package hash/crc64 takes them. CRC-64/NVME is
// that of the NVM Express NVM Command Set Specification, section 5.2.1.3.
const (
	polyIEEE       = 0xedb88320
	polyCastagnoli = 0x82f63b78
	polyNVME       = 0x9a6c9329ac4bc9b5
)

var (
	tableCastagnoli = crc32.MakeTable(polyCastagnoli)
	tableNVME       = crc64.MakeTable(polyNVME)
)

func (a Algorithm) hash() hash.Hash {
	switch a {
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(tableCastagnoli)
	case CRC64NVME:
		return crc64.New(tableNVME)
	case SHA1:
		return sha1.New() //nolint:gosec // the protocol's
	default:
		return sha256.New()
	}
}

// Checksum is a checksum and its algorithm. It is comparable.
type Checksum struct {
	Algorithm Algorithm
	sum       string // Size bytes
}

// NewChecksum reads a checksum in base64, as it is in its header.
func NewChecksum(a Algorithm, text string) (Checksum, bool) {
	sum, ok := decodeSum(text, a.Size())
	return Checksum{a, string(sum)}, ok
}

// Sum computes the checksum of data.
func Sum(a Algorithm, data []byte) Checksum {
	h := a.hash()
	h.Write(data)
	return Checksum{a, string(h.Sum(nil))}
}

// String is the checksum in base64, as it is in its header.
func (c Checksum) String() string { return base64.StdEncoding.EncodeToString([]byte(c.sum)) }

func decodeSum(text string, size int) ([]byte, bool) {
	if len(text) != base64.StdEncoding.EncodedLen(size) {
		return nil, false
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	return sum, err == nil && len(sum) == size
}

// digests computes the MD5 of what is written, and other digests on request.
type digests struct {
	md5 hash.Hash
	by  [numAlgorithms]hash.Hash // nil if not computed
}

func newDigests() *digests {
	return &digests{md5: md5.New()} //nolint:gosec // the ETag of S3
}

func (d *digests) add(a Algorithm) {
	if d.by[a] == nil {
		d.by[a] = a.hash()
	}
}

func (d *digests) write(p []byte) {
	d.md5.Write(p)
	for _, h := range d.by {
		if h != nil {
			h.Write(p)
		}
	}
}

func (d *digests) checksum(a Algorithm) Checksum {
	return Checksum{a, string(d.by[a].Sum(nil))}
}
