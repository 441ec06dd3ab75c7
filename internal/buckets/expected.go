package buckets

import (
	"strings"

	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Expected is checked against the finished upload, except for zero fields.
type Expected struct {
	Size      optional.Of[int64] // bytes
	Checksums []Checksum         // at most one per algorithm; only the algorithm of the upload is checked
}

// ErrObjectSize means that the listed parts have another size.
var ErrObjectSize = errcode.New(errcode.Invalid, "the parts do not have the expected size")

// ChecksumError means that the object has another checksum.
type ChecksumError struct {
	Algorithm string
}

func (e *ChecksumError) Error() string { return "the object does not have the expected " + e.Algorithm }

func (e *ChecksumError) ErrorCode() errcode.Code { return errcode.Invalid }

// check returns ErrObjectSize or *ChecksumError if the object differs. An object without a checksum matches any.
func (e *Expected) check(o *Object) error {
	if e.Size.Set && e.Size.Value != o.Length {
		return ErrObjectSize
	}
	for _, want := range e.Checksums {
		if want.Algorithm == o.Checksum.Algorithm && !o.Checksum.is(want.Value) {
			return &ChecksumError{want.Algorithm}
		}
	}
	return nil
}

// is compares a value. minio-go omits the part count of composite checksums.
func (c *Checksum) is(value string) bool {
	base, _, _ := strings.Cut(c.Value, "-")
	return value == c.Value || c.Composite && value == base
}

// checksum returns zero if the client chose no algorithm or a part has no checksum.
func (a *Assembly) checksum(chosen Checksum) (none Checksum) {
	algorithm, ok := checksum.ParseAlgorithm(chosen.Algorithm)
	if !ok {
		return none
	}
	parts := make([]checksum.Part, len(a.Used))
	for i, sum := range a.Sums {
		s, ok := checksum.Parse(algorithm, sum.Value)
		if !ok || sum.Algorithm != chosen.Algorithm {
			return none
		}
		parts[i] = checksum.Part{Checksum: s, Size: a.Used[i].Length}
	}
	c := Checksum{Algorithm: chosen.Algorithm, Composite: chosen.Composite}
	if c.Composite {
		c.Value, ok = checksum.Composite(algorithm, parts)
	} else {
		var whole checksum.Checksum
		if whole, ok = checksum.FullObject(algorithm, parts); ok {
			c.Value = whole.String()
		}
	}
	if !ok {
		return none
	}
	return c
}
