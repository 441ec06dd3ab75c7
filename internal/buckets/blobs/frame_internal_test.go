package blobs

import (
	"bytes"
	"errors"
	"testing"

	"holdfast/internal/buckets"
)

func FuzzFrame(f *testing.F) {
	sealed := func(data []byte, id uint64, index int64) []byte {
		c := new(chunk)
		c.n = copy(c.bytes[:chunkSize], data)
		c.measure()
		c.seal(id, index)
		return bytes.Clone(c.stored())
	}
	f.Add(sealed([]byte("data"), 7, 3), int64(3))
	f.Add(sealed(nil, 0, 0), int64(0))
	f.Add(sealed(bytes.Repeat([]byte("x"), chunkSize), 1<<64-1, 1<<32-1), int64(1<<32-1))
	f.Add(make([]byte, trailerSize), int64(0))
	f.Fuzz(func(t *testing.T, stored []byte, index int64) {
		if len(stored) < trailerSize || len(stored) > frameSize || index < 0 || index >= 1<<32 {
			return
		}
		c := new(chunk)
		c.n = len(stored) - trailerSize
		copy(c.bytes[:], stored)
		err := c.open(index)
		switch {
		case err == nil:
			if got := sealed(stored[:c.n], c.id, index); !bytes.Equal(got, stored) {
				t.Errorf("%x was accepted; sealed it is %x", stored, got)
			}
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, errNewer):
			t.Errorf("%v: want ErrCorrupt", err)
		}
	})
}

// TestFrame checks that each bit and the position of a frame matter.
func TestFrame(t *testing.T) {
	t.Parallel()
	c := new(chunk)
	c.n = copy(c.bytes[:], "some data")
	c.measure()
	c.seal(42, 5)
	if err := c.open(5); err != nil || c.id != 42 {
		t.Fatalf("opened with the ID %d, %v", c.id, err)
	}
	for i := range 8 * len(c.stored()) {
		c.bytes[i/8] ^= 1 << (i % 8)
		if err := c.open(5); !errors.Is(err, ErrCorrupt) {
			t.Errorf("bit %d: %v, want ErrCorrupt", i, err)
		}
		c.bytes[i/8] ^= 1 << (i % 8)
	}
	if err := c.open(4); !errors.Is(err, ErrCorrupt) {
		t.Errorf("at another place: %v, want ErrCorrupt", err)
	}
}

func TestStoredSize(t *testing.T) {
	t.Parallel()
	for length, frames := range map[int64]int64{0: 0, 1: 1, chunkSize: 1, chunkSize + 1: 2, 5 << 30: 40960} {
		b := buckets.Body{Length: length}
		if got := StoredSize(&b); got != length {
			t.Errorf("%d bytes without frames: %d stored", length, got)
		}
		b.Frames.Set = true
		want := length + frames*trailerSize
		if got := StoredSize(&b); got != want || !HasSize(&b, want) || !HasSize(&b, length) || HasSize(&b, want+1) {
			t.Errorf("%d bytes: %d stored, want %d", length, got, want)
		}
	}
}
