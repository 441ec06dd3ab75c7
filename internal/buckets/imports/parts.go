package imports

import (
	"context"
	"crypto/md5" //nolint:gosec // S3's entity tags
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/buckets"
)

// partsOf returns the number of parts in an entity tag, 0 for an MD5, or -1 for any other tag.
func partsOf(etag string) int {
	sum, count, hasParts := strings.Cut(etag, "-")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != md5.Size {
		return -1
	}
	if !hasParts {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > buckets.MaxParts {
		return -1
	}
	return n
}

// partSums computes a multipart entity tag: the MD5 over the parts' MD5s.
type partSums struct {
	sizes []int64 // the last size repeats
	part  hash.Hash
	all   hash.Hash
	n     int
	left  int64 // bytes until the current part ends
}

// newPartSums divides the bytes into parts with the given sizes.
func newPartSums(sizes ...int64) *partSums {
	return &partSums{sizes: sizes, part: md5.New(), all: md5.New()} //nolint:gosec // as above
}

// Write hashes the parts. It never fails.
func (s *partSums) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if s.left == 0 {
			s.end()
			s.left = s.sizes[min(s.n, len(s.sizes)-1)]
			s.n++
		}
		k := min(int64(len(p)), s.left)
		s.part.Write(p[:k])
		p, s.left = p[k:], s.left-k
	}
	return written, nil
}

// end finishes the current part.
func (s *partSums) end() {
	if s.n > 0 {
		s.all.Write(s.part.Sum(nil))
		s.part.Reset()
	}
}

// etag returns the entity tag after the last byte.
func (s *partSums) etag() string {
	s.end()
	return hex.EncodeToString(s.all.Sum(nil)) + "-" + strconv.Itoa(s.n)
}

// isCount reports whether parts with the size first give n parts.
func isCount(size, first int64, n int) bool {
	return first > 0 && (size+first-1)/first == int64(n)
}

// layouts returns the divisions to try. isKnown is true if the source reported the sizes. It asks for the first two
// parts; if they differ, for all.
func (s *Source) layouts(ctx context.Context, bucket string, from *Listed) (all []*partSums, isKnown bool) {
	n := partsOf(from.ETag)
	if n == 1 {
		return []*partSums{newPartSums(max(from.Size, 1))}, true
	}
	first, count := s.partSize(ctx, bucket, from, 1)
	if count != n {
		for _, size := range usualParts {
			if isCount(from.Size, size, n) {
				all = append(all, newPartSums(size))
			}
		}
		return all, false
	}
	second := first
	if n > 2 {
		second, _ = s.partSize(ctx, bucket, from, 2)
	}
	if second == first && isCount(from.Size, first, n) {
		return []*partSums{newPartSums(first)}, true
	}
	sizes, sum := []int64{first}, first
	for i := int32(2); int(i) <= n; i++ {
		size, count := s.partSize(ctx, bucket, from, i)
		if count != n || size <= 0 {
			return nil, false
		}
		sizes, sum = append(sizes, size), sum+size
	}
	return []*partSums{newPartSums(sizes...)}, sum == from.Size
}

// partSize returns 0 without an answer.
func (s *Source) partSize(ctx context.Context, bucket string, from *Listed, number int32) (size int64, count int) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &from.Key, VersionId: versionOrNil(from), PartNumber: &number, IfMatch: aws.String(`"` + from.ETag + `"`)})
	if err != nil {
		return 0, 0
	}
	return aws.ToInt64(out.ContentLength), int(aws.ToInt32(out.PartsCount))
}

// usualParts are common part sizes, tried when the source does not report it.
var usualParts = mebibytes(5, 8, 10, 15, 16, 20, 25, 32, 50, 64, 100, 128, 256, 500, 512, 1024)

// mebibytes converts sizes to bytes.
func mebibytes(all ...int64) (sizes []int64) {
	for _, n := range all {
		sizes = append(sizes, n<<20)
	}
	return slices.Clip(sizes)
}
