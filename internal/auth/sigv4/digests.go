package sigv4

import (
	"crypto/md5" //nolint:gosec // the protocol's
	"hash"

	"holdfast/internal/checksum"
)

// digests computes the MD5 of what is written, and other digests on request.
type digests struct {
	md5 hash.Hash
	by  [checksum.NumAlgorithms]hash.Hash // nil if not computed
}

func newDigests() *digests {
	return &digests{md5: md5.New()} //nolint:gosec // the ETag of S3
}

func (d *digests) add(a checksum.Algorithm) {
	if d.by[a] == nil {
		d.by[a] = a.New()
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

func (d *digests) checksum(a checksum.Algorithm) checksum.Checksum {
	return checksum.Of(a, d.by[a])
}
