package buckets

import (
	"math/big"
	"strings"
	"testing"
)

func FuzzRange(f *testing.F) {
	for _, seed := range []string{
		"bytes=0-0", "bytes=9-", "bytes=-5", "bytes=-0", "bytes=5-4", "bytes=0-18446744073709551616", "bytes=99999999999999999999-", "bytes=-99999999999999999999", "bytes= 1-2 ", "bytes=1-2,4-5",
		"bytes=", "bytes=-", "items=1-2", "bytes=+1-2", "bytes=1--2", "bytes=0x1-2", "bytes=18700000000000000000-10000000000000000000", "bytes=007-7", "bytes=٠-١",
	} {
		f.Add(seed, uint16(10))
	}
	f.Fuzz(func(t *testing.T, header string, size uint16) {
		size %= 300
		from, length, ok, err := ParseRange(header, int64(size))
		first, last, valid := bounds(header, size)
		var wantFrom, wantLength int64
		for i := int64(0); valid && i < int64(size); i++ {
			if n := big.NewInt(i); n.Cmp(first) >= 0 && n.Cmp(last) <= 0 {
				if wantLength == 0 {
					wantFrom = i
				}
				wantLength++
			}
		}
		switch {
		case !valid:
			if ok || err != nil {
				t.Errorf("%q of %d: %d bytes from %d, %v; want to ignore it", header, size, length, from, err)
			}
		case wantLength == 0:
			if ok || err == nil {
				t.Errorf("%q of %d: %d bytes from %d; want none", header, size, length, from)
			}
		case !ok || err != nil || from != wantFrom || length != wantLength:
			t.Errorf("%q of %d: %d bytes from %d, %t, %v; want %d from %d", header, size, length, from, ok, err, wantLength, wantFrom)
		}
	})
}

// bounds returns the first and last byte, or false if the header is ignored.
func bounds(header string, size uint16) (first, last *big.Int, ok bool) {
	text, ok := strings.CutPrefix(header, "bytes=")
	parts := strings.Split(strings.TrimSpace(text), "-")
	if !ok || len(parts) != 2 || parts[0]+parts[1] == "" {
		return nil, nil, false
	}
	var n [2]*big.Int
	for i, part := range parts {
		for _, r := range part {
			if r < '0' || r > '9' {
				return nil, nil, false
			}
		}
		n[i], _ = new(big.Int).SetString(part, 10)
	}
	whole := big.NewInt(int64(size))
	switch {
	case parts[0] == "":
		return new(big.Int).Sub(whole, n[1]), whole, true
	case parts[1] == "":
		return n[0], whole, true
	}
	return n[0], n[1], n[0].Cmp(n[1]) <= 0
}
