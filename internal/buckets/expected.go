package buckets

import (
	"strings"

	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Expected describes the object that a client expects from its upload. The zero value expects nothing.
type Expected struct {
	Size      optional.Of[int64]
	Checksums []Checksum // at most one for each algorithm; only the one with the upload's algorithm counts
}

// ErrObjectSize means that the listed parts do not have the expected size.
var ErrObjectSize = errcode.New(errcode.Invalid, "the parts do not have the expected size")

// ChecksumError means that the object's checksum is not the expected one.
type ChecksumError struct {
	Algorithm string
}

func (e *ChecksumError) Error() string { return "the object does not have the expected " + e.Algorithm }

// ErrorCode implements errcode.Coder.
func (e *ChecksumError) ErrorCode() errcode.Code { return errcode.Invalid }

// check returns ErrObjectSize or a *ChecksumError unless the object is as expected. An object without a checksum
// matches any checksum.
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

// is reports whether a client means the checksum by a value. minio-go sends composite checksums without the number of parts.
func (c *Checksum) is(value string) bool {
	base, _, _ := strings.Cut(c.Value, "-")
	return value == c.Value || c.Composite && value == base
}

// checksum computes the object's checksum from its parts' checksums. The zero value means that the client has chosen no
// algorithm, or that a part has no such checksum.
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
