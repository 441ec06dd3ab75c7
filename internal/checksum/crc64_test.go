package checksum_test

import (
	"math/rand/v2"
	"testing"

	"holdfast/internal/checksum"
)

func TestCRC64OfChunks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		data := make([]byte, random.IntN(10000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		c := checksum.NewCRC64()
		for _, p := range split(data, random) {
			c.Append(checksum.UpdateCRC64(0, p), int64(len(p)))
		}
		if want := checksum.UpdateCRC64(0, data); c.Sum() != want {
			t.Fatalf("%d bytes: %x, want %x", len(data), c.Sum(), want)
		}
	}
}
