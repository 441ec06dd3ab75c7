package checksum_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"holdfast/internal/checksum"
)

// TestChecksums uses the check values for "123456789" from the catalogue of parametrised CRC algorithms and from FIPS
// 180. The others for CRC-64/NVME are examples in the NVM Command Set Specification.
func TestChecksums(t *testing.T) {
	t.Parallel()
	sequence := make([]byte, 4096)
	for i := range sequence {
		sequence[i] = byte(i)
	}
	backward := make([]byte, 4096)
	for i := range backward {
		backward[i] = byte(255 - i%256)
	}
	for _, c := range []struct {
		algorithm checksum.Algorithm
		data      []byte
		want      string // hexadecimal
	}{
		{checksum.CRC32, []byte("123456789"), "cbf43926"},
		{checksum.CRC32C, []byte("123456789"), "e3069283"},
		{checksum.CRC64NVME, []byte("123456789"), "ae8b14860a799888"},
		{checksum.CRC64NVME, make([]byte, 4096), "6482d367eb22b64e"},
		{checksum.CRC64NVME, bytes.Repeat([]byte{0xff}, 4096), "c0ddba7302eca3ac"},
		{checksum.CRC64NVME, sequence, "3e729f5f6750449c"},
		{checksum.CRC64NVME, backward, "9a2df64b8e9e517e"},
		{checksum.SHA1, []byte("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{checksum.SHA256, []byte("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	} {
		got := checksum.Sum(c.algorithm, c.data).String()
		raw, err := base64.StdEncoding.DecodeString(got)
		if err != nil || hex.EncodeToString(raw) != c.want {
			t.Errorf("%s of %d bytes: %x, want %s", c.algorithm, len(c.data), raw, c.want)
		}
		if back, ok := checksum.Parse(c.algorithm, got); !ok || back != checksum.Sum(c.algorithm, c.data) {
			t.Errorf("%s is not read back", c.algorithm)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "AAAA", "AAAAAA", "AAAAAA=", "AAAAAB==", "AAAAAAA=", "AAAA AA==", "AAAAAA==\n", "!AAAAA==", "AAAAAAAA"} {
		if c, ok := checksum.Parse(checksum.CRC32, text); ok {
			t.Errorf("%q is read as %v", text, c)
		}
	}
}

func TestParseAlgorithm(t *testing.T) {
	t.Parallel()
	for _, a := range []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME, checksum.SHA1, checksum.SHA256} {
		if got, ok := checksum.ParseAlgorithm(strings.ToLower(a.String())); !ok || got != a {
			t.Errorf("%s: %v, %v", a, got, ok)
		}
		if a.Header() != "x-amz-checksum-"+strings.ToLower(a.String()) {
			t.Errorf("%s has the header %s", a, a.Header())
		}
	}
	if _, ok := checksum.ParseAlgorithm("MD5"); ok {
		t.Error("MD5 is an algorithm")
	}
}

func split(data []byte, random *rand.Rand) (parts [][]byte) {
	for len(data) > 0 {
		n := random.IntN(len(data) + 1)
		parts = append(parts, data[:n])
		data = data[n:]
	}
	return append(parts, data)
}

func TestFullObjectIsTheChecksumOfAllBytes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, a := range []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME} {
		for range 50 {
			data := make([]byte, random.IntN(10000))
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			var parts []checksum.Part
			for _, p := range split(data, random) {
				parts = append(parts, checksum.Part{Checksum: checksum.Sum(a, p), Size: int64(len(p))})
			}
			if got, ok := checksum.FullObject(a, parts); !ok || got != checksum.Sum(a, data) {
				t.Fatalf("%s of %d bytes in %d parts: %v, want %v", a, len(data), len(parts), got, checksum.Sum(a, data))
			}
		}
	}
}

// TestFullObjectOfLargeParts combines halves and quarters with 2.5 TiB, which no test can read.
func TestFullObjectOfLargeParts(t *testing.T) {
	t.Parallel()
	for _, a := range []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME} {
		part := func(text string, size int64) checksum.Part {
			return checksum.Part{Checksum: checksum.Sum(a, []byte(text)), Size: size}
		}
		one, two, three := part("one", 5<<38), part("two", 5<<38), part("three", 5<<39+1)
		left, _ := checksum.FullObject(a, []checksum.Part{one, two})
		right, _ := checksum.FullObject(a, []checksum.Part{two, three})
		all, ok := checksum.FullObject(a, []checksum.Part{one, two, three})
		byLeft, _ := checksum.FullObject(a, []checksum.Part{{Checksum: left, Size: one.Size + two.Size}, three})
		byRight, _ := checksum.FullObject(a, []checksum.Part{one, {Checksum: right, Size: two.Size + three.Size}})
		if !ok || all != byLeft || all != byRight {
			t.Errorf("%s is not associative: %v, %v, %v", a, all, byLeft, byRight)
		}
	}
}

func TestComposite(t *testing.T) {
	t.Parallel()
	parts := []checksum.Part{{Checksum: checksum.Sum(checksum.SHA1, []byte("one"))}, {Checksum: checksum.Sum(checksum.SHA1, []byte("two"))}}
	one, two := sha1.Sum([]byte("one")), sha1.Sum([]byte("two"))
	all := sha1.Sum(append(one[:], two[:]...))
	if got, ok := checksum.Composite(checksum.SHA1, parts); !ok || got != base64.StdEncoding.EncodeToString(all[:])+"-2" {
		t.Errorf("got %s", got)
	}
	for name, ok := range map[string]bool{
		"no parts":             second(checksum.Composite(checksum.SHA1, nil)),
		"another algorithm":    second(checksum.Composite(checksum.CRC32, parts)),
		"a part without one":   second(checksum.Composite(checksum.CRC32, []checksum.Part{{}})),
		"full object of SHA-1": second(checksum.FullObject(checksum.SHA1, parts)),
		"full, no parts":       second(checksum.FullObject(checksum.CRC32, nil)),
		"full, another":        second(checksum.FullObject(checksum.CRC32, parts)),
		"full, without one":    second(checksum.FullObject(checksum.CRC32, []checksum.Part{{}})),
	} {
		if ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func second[T any](_ T, ok bool) bool { return ok }
