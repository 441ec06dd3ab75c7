package sigv4

import (
	"crypto/md5" //nolint:gosec // the protocol's
	"hash"

	"holdfast/internal/checksum"
)

// digests computes several digests of the same bytes.
type digests struct {
	md5 *pipeline
	by  [checksum.NumAlgorithms]hash.Hash
}

func newDigests(cores *Cores) *digests {
	return &digests{md5: newPipeline(md5.New(), cores)} //nolint:gosec // the ETag of S3
}

func (d *digests) add(a checksum.Algorithm) {
	if d.by[a] == nil {
		d.by[a] = a.New()
	}
}

// write adds p to all digests. The MD5 may still read p until wait returns.
func (d *digests) write(p []byte) {
	d.md5.write(p)
	for _, h := range d.by {
		if h != nil {
			h.Write(p)
		}
	}
}

func (d *digests) wait() { d.md5.wait() }

func (d *digests) checksum(a checksum.Algorithm) checksum.Checksum {
	return checksum.Of(a, d.by[a])
}
