package buckets_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	of := func(a checksum.Algorithm, text string) buckets.Checksum {
		return buckets.Checksum{Algorithm: a.String(), Value: checksum.Sum(a, []byte(text)).String()}
	}
	crc, sha := checksum.CRC32, checksum.SHA256
	parts := []buckets.Part{
		{Number: 1, Body: buckets.Body{Length: 5}, Checksum: of(crc, "hello")},
		{Number: 2, Body: buckets.Body{Length: 6}, Checksum: of(crc, " world")},
	}
	whole := of(crc, "hello world")
	var size5, size11, none buckets.Expected
	size5.Size, size11.Size = optional.Some[int64](5), optional.Some[int64](11)
	expect := func(sums ...buckets.Checksum) buckets.Expected { return buckets.Expected{Checksums: sums} }
	for name, c := range map[string]struct {
		chosen, is buckets.Checksum
		expected   buckets.Expected
		want       error
	}{
		"full":                {whole, whole, none, nil},
		"size":                {whole, whole, size11, nil},
		"wrong size":          {whole, whole, size5, buckets.ErrObjectSize},
		"checksum":            {whole, whole, expect(whole), nil},
		"wrong checksum":      {whole, whole, expect(of(sha, ""), of(crc, "hello")), &buckets.ChecksumError{Algorithm: "CRC32"}},
		"other algorithm":     {whole, whole, expect(of(sha, "")), nil},
		"none chosen":         {buckets.Checksum{}, buckets.Checksum{}, expect(of(crc, "")), nil},
		"none of the parts":   {of(sha, ""), buckets.Checksum{}, expect(of(sha, "")), nil},
		"size without one":    {buckets.Checksum{}, buckets.Checksum{}, size5, buckets.ErrObjectSize},
		"full of a hash":      {of(checksum.SHA1, ""), buckets.Checksum{}, none, nil},
		"an old server's one": {buckets.Checksum{Algorithm: "MD9"}, buckets.Checksum{}, none, nil},
	} {
		a, err := buckets.Assemble(parts, []buckets.PartRef{{Number: 1}, {Number: 2}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		u := buckets.Upload{Properties: buckets.Properties{Checksum: buckets.Checksum{Algorithm: c.chosen.Algorithm}}}
		o, err := a.Object(u, buckets.Completion{Expected: c.expected})
		wrong, isChecksum := c.want.(*buckets.ChecksumError)
		if got, ok := errors.AsType[*buckets.ChecksumError](err); ok != isChecksum || ok && *got != *wrong || !ok && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%s: code %v", name, errcode.Of(err))
		}
		if !reflect.DeepEqual(o.Checksum, c.is) {
			t.Errorf("%s: checksum %+v, want %+v", name, o.Checksum, c.is)
		}
	}
}

func TestCompositeChecksum(t *testing.T) {
	t.Parallel()
	sum := buckets.Checksum{Algorithm: "SHA256", Value: checksum.Sum(checksum.SHA256, []byte("hello")).String()}
	a, err := buckets.Assemble([]buckets.Part{{Number: 1, Body: buckets.Body{Length: 5}, Checksum: sum}}, []buckets.PartRef{{Number: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	u := buckets.Upload{Properties: buckets.Properties{Checksum: buckets.Checksum{Algorithm: "SHA256", Composite: true}}}
	// From Python: b64encode(sha256(sha256(b"hello").digest()).digest()).
	want := buckets.Checksum{Algorithm: "SHA256", Value: "lZXJ35AHUUjrBoYDZd8zWEt1v/eCpRDGzUiDpBmDPVA=-1", Composite: true}
	for value, matches := range map[string]bool{want.Value: true, strings.TrimSuffix(want.Value, "-1"): true, strings.TrimSuffix(want.Value, "1") + "2": false, "": false} {
		expected := buckets.Expected{Checksums: []buckets.Checksum{{Algorithm: "SHA256", Value: value}}}
		if o, err := a.Object(u, buckets.Completion{Expected: expected}); (err == nil) != matches || matches && o.Checksum != want {
			t.Errorf("%q: %+v, %v; want %+v", value, o.Checksum, err, want)
		}
	}
}
