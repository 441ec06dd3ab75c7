package checksum_test

import (
	"crypto/md5"
	"fmt"
	"hash/crc64"
	"testing"

	"holdfast/internal/checksum"
)

// BenchmarkSum measures each algorithm on a chunk. A PUT cannot be faster than MD5; the standard library's table is
// the alternative to crc64nvme.
func BenchmarkSum(b *testing.B) {
	data := make([]byte, 128<<10)
	run := func(name string, sum func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				sum()
			}
		})
	}
	for _, a := range []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME, checksum.SHA1, checksum.SHA256} {
		run(a.String(), func() { checksum.Sum(a, data) })
	}
	table := crc64.MakeTable(0x9a6c9329ac4bc9b5)
	run("CRC64NVME by table", func() { crc64.Checksum(data, table) })
	run("MD5", func() { md5.Sum(data) })
}

func BenchmarkFullObject(b *testing.B) {
	parts := make([]checksum.Part, 10_000)
	for i := range parts {
		parts[i] = checksum.Part{Checksum: checksum.Sum(checksum.CRC64NVME, []byte{byte(i)}), Size: 5<<20 + int64(i)}
	}
	for b.Loop() {
		if _, ok := checksum.FullObject(checksum.CRC64NVME, parts); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int64{128 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := checksum.NewCRC64()
			for b.Loop() {
				c.Append(1, size)
			}
		})
	}
}
