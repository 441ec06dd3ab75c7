// Package checksum computes S3's checksums, and combines part checksums.
package checksum

import (
	"crypto/sha1" //nolint:gosec // the protocol's
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/minio/crc64nvme"
)

// Algorithm is an S3 checksum algorithm.
type Algorithm uint8

// Algorithms of S3.
const (
	CRC32 Algorithm = iota
	CRC32C
	CRC64NVME
	SHA1
	SHA256
	NumAlgorithms = iota
)

var algorithms = [NumAlgorithms]struct {
	name, header string
	size         int
}{
	CRC32:     {"CRC32", "x-amz-checksum-crc32", crc32.Size},
	CRC32C:    {"CRC32C", "x-amz-checksum-crc32c", crc32.Size},
	CRC64NVME: {"CRC64NVME", "x-amz-checksum-crc64nvme", crc64nvme.Size},
	SHA1:      {"SHA1", "x-amz-checksum-sha1", sha1.Size},
	SHA256:    {"SHA256", "x-amz-checksum-sha256", sha256.Size},
}

// ParseAlgorithm parses a case-insensitive name.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for a := range algorithms {
		if strings.EqualFold(name, algorithms[a].name) {
			return Algorithm(a), true
		}
	}
	return 0, false
}

func (a Algorithm) String() string { return algorithms[a].name }

func (a Algorithm) Header() string { return algorithms[a].header }

func (a Algorithm) Size() int { return algorithms[a].size }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (a Algorithm) New() hash.Hash {
	switch a {
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(castagnoli)
	case CRC64NVME:
		return crc64nvme.New()
	case SHA1:
		return sha1.New() //nolint:gosec // the protocol's
	default:
		return sha256.New()
	}
}

// Checksum is a comparable checksum with its algorithm.
type Checksum struct {
	Algorithm Algorithm
	sum       string
}

// Parse parses a base64 checksum, as in S3's headers.
func Parse(a Algorithm, text string) (Checksum, bool) {
	sum, ok := Decode(text, a.Size())
	return Checksum{a, string(sum)}, ok
}

func Sum(a Algorithm, data []byte) Checksum {
	h := a.New()
	h.Write(data)
	return Of(a, h)
}

// Of returns the checksum computed by a hash from a.New.
func Of(a Algorithm, h hash.Hash) Checksum { return Checksum{a, string(h.Sum(nil))} }

func (c Checksum) String() string { return base64.StdEncoding.EncodeToString([]byte(c.sum)) }

// Decode decodes a base64 digest with size bytes in its canonical spelling.
func Decode(text string, size int) ([]byte, bool) {
	if len(text) != base64.StdEncoding.EncodedLen(size) {
		return nil, false
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	return sum, err == nil && len(sum) == size
}
