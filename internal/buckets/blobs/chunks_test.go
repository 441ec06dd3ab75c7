package blobs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

const (
	chunkSize   = buckets.ChunkSize
	trailerSize = 32
	frameSize   = chunkSize + trailerSize
)

func (f *flaky) change(t testing.TB, change func([]byte) []byte) {
	t.Helper()
	name := filepath.Join(f.dir, path)
	b, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, change(b), 0o600))
}

// legacy replaces a body's copies by copies without frames, and returns an earlier release's row, with or without
// a CRC32C.
func (c *cluster) legacy(b []byte, body buckets.Reference, crc bool) buckets.Reference {
	for _, id := range body.Sharks {
		c.nodes[id].change(c.t, func([]byte) []byte { return slices.Clone(b) })
	}
	body.Frames = optional.Of[buckets.Frames]{}
	if crc {
		body.CRC32C = optional.Some(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	return body
}

// damages change a copy with at least two chunks so that some chunks are bad.
var damages = map[string]func(b []byte, at int) []byte{
	"flip":     func(b []byte, at int) []byte { b[at%len(b)] ^= 4; return b },
	"truncate": func(b []byte, at int) []byte { return b[:at%len(b)] },
	"shift":    func(b []byte, at int) []byte { return slices.Insert(b, at%len(b), 'x') },
	"swap": func(b []byte, at int) []byte {
		at = at % (len(b)/frameSize - 1) * frameSize
		first := slices.Clone(b[at : at+frameSize])
		copy(b[at:], b[at+frameSize:at+2*frameSize])
		copy(b[at+frameSize:], first)
		return b
	},
	"repeat": func(b []byte, at int) []byte {
		at = at % (len(b)/frameSize - 1) * frameSize
		copy(b[at:at+frameSize], b[at+frameSize:])
		return b
	},
	"empty": func([]byte, int) []byte { return nil },
}

// TestDamage checks that a single damaged copy never spoils a read.
func TestDamage(t *testing.T) {
	t.Parallel()
	b := content(5*chunkSize + 100)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, time.Minute, "a:1", "b:1")
			body := c.mustWrite(b, 2)
			for _, at := range []int{0, 1, chunkSize - 1, chunkSize, frameSize + 5, 3 * frameSize, 4*frameSize + chunkSize + 1} {
				c.nodes["a:1"].change(t, func(b []byte) []byte { return damage(b, at) })
				for range 4 {
					c.wantRead(body, b)
					c.wantRanges(body, b)
				}
				must(t, c.Restore(t.Context(), path, body, "a:1"))
				must(t, second(c.Verify(t.Context(), path, body, "a:1", nil)))
			}
		})
	}
}

// TestCopyOfAnotherBody uses files with the same length and consistent chunks.
func TestCopyOfAnotherBody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1")
		body := c.mustWrite(b, 1)
		another := slices.Clone(b)
		another[20]++
		c.mustWrite(another, 1)
		for _, r := range [][2]int64{{0, -1}, {10, 100}, {int64(len(b)) - 1, 1}} {
			if got, err := c.read(body, r[0], r[1]); !errors.Is(err, blobs.ErrCorrupt) || len(got) > 0 {
				t.Errorf("range %v: read %d bytes, %v; want ErrCorrupt", r, len(got), err)
			}
		}
		if got, want := c.problems(), []string{" lost", " lost", " lost", "a:1 corrupt", "a:1 corrupt", "a:1 corrupt"}; !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	})
}

func TestDamageEverywhere(t *testing.T) {
	t.Parallel()
	b := content(12 * chunkSize)
	c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
	body := c.mustWrite(b, 3)
	for chunk := range 12 {
		for i, id := range []string{"a:1", "b:1", "c:1"} {
			if chunk%3 != i {
				c.nodes[id].corrupt(t, path, int64(chunk*frameSize+chunk))
			}
		}
	}
	for range 5 {
		c.wantRead(body, b)
		c.wantRanges(body, b)
	}
	if got, want := slices.Compact(c.problems()), []string{"a:1 corrupt", "b:1 corrupt", "c:1 corrupt"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	for _, id := range []string{"a:1", "b:1", "c:1"} {
		must(t, c.Restore(t.Context(), path, body, id))
		must(t, second(c.Verify(t.Context(), path, body, id, nil)))
	}
}

// TestNoGoodChunk checks that a read fails before the first byte, or stops after the last good chunk.
func TestNoGoodChunk(t *testing.T) {
	t.Parallel()
	b := content(5 * chunkSize)
	c := newCluster(t, time.Minute, "a:1", "b:1")
	body := c.mustWrite(b, 2)
	for _, id := range body.Sharks {
		c.nodes[id].corrupt(t, path, 2*frameSize+17)
	}
	for range 3 {
		got, err := c.read(body, 0, -1)
		if !errors.Is(err, blobs.ErrCorrupt) || !errcode.Is(err, errcode.Internal) || !bytes.Equal(got, b[:2*chunkSize]) {
			t.Errorf("read %d bytes, %v; want the first two chunks and ErrCorrupt", len(got), err)
		}
		if _, err := c.Open(t.Context(), path, body, 2*chunkSize+5, 10); !errors.Is(err, blobs.ErrCorrupt) {
			t.Errorf("open of the bad chunk: %v, want ErrCorrupt", err)
		}
		if got, err := c.read(body, 3*chunkSize, -1); err != nil || !bytes.Equal(got, b[3*chunkSize:]) {
			t.Errorf("read after the bad chunk: %d bytes, %v", len(got), err)
		}
	}
	if p := c.problems(); !slices.Contains(p, " lost") {
		t.Errorf("found %q, want that the body is lost", p)
	}
	// The failed node may have a good chunk.
	c.nodes["a:1"].set(func(f *flaky) { f.err = errBroken })
	_, err := c.Open(t.Context(), path, body, 2*chunkSize, 1)
	wantCode(t, "open while a node is down", err, errcode.Unavailable)
	if p := c.problems(); slices.Contains(p, " lost") {
		t.Errorf("found %q, but a node does not work", p)
	}
}

// TestLegacyBodies checks that bodies without frames are verified before their first byte is returned.
func TestLegacyBodies(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 5000, chunkSize, 5*chunkSize + 3} {
		for _, crc := range []bool{true, false} {
			t.Run(fmt.Sprint(size, crc), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, time.Minute, "a:1", "b:1")
				b := content(size)
				body := c.legacy(b, c.mustWrite(b, 2), crc)
				c.wantRead(body, b)
				c.wantRanges(body, b)
				if got := slices.Compact(c.problems()); slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, "unframed") }) {
					t.Errorf("found %q", got)
				}
				for _, at := range []int{0, size / 2, size - 1} {
					c.nodes["a:1"].corrupt(t, path, int64(at))
					for range 4 {
						c.wantRead(body, b)
						c.wantRanges(body, b)
					}
					must(t, c.Restore(t.Context(), path, body, "a:1"))
				}
				v, err := c.Verify(t.Context(), path, body, "a:1", nil)
				if err != nil || v.Framed || v.Frames.CRC64NVME != checksum.UpdateCRC64(0, b) {
					t.Errorf("verified: %+v, %v", v, err)
				}
				for _, id := range body.Sharks {
					c.nodes[id].corrupt(t, path, int64(size-1))
				}
				if got, err := c.read(body, 0, 1); !errors.Is(err, blobs.ErrCorrupt) || len(got) > 0 {
					t.Errorf("read of the first byte: %d bytes, %v; want ErrCorrupt", len(got), err)
				}
				body.CRC32C, body.MD5 = optional.Of[uint32]{}, nil
				_, err = c.read(body, 0, 1)
				wantCode(t, "a row without any checksum", err, errcode.Internal)
			})
		}
	}
}

func (c *cluster) wantCopy(body buckets.Reference, want []byte, node string, good, framed bool) {
	c.t.Helper()
	one := body
	one.Sharks = []string{node}
	if !good {
		if _, err := c.read(one, 0, -1); !errors.Is(err, blobs.ErrCorrupt) {
			c.t.Errorf("read of the bad copy: %v", err)
		}
		return
	}
	c.wantRead(one, want)
	c.wantRanges(one, want)
	v, err := c.Verify(c.t.Context(), path, body, node, nil)
	if err != nil || v.Framed != framed || framed && v.Frames.ID == 0 {
		c.t.Errorf("verified: %+v, %v", v, err)
	}
}

func TestMixedLayouts(t *testing.T) {
	t.Parallel()
	for _, size := range []int{5000, 5*chunkSize + 3} {
		c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
		b := content(size)
		body := c.mustWrite(b, 3)
		c.nodes["a:1"].change(t, func([]byte) []byte { return slices.Clone(b) })
		stale := body
		stale.Frames = optional.Of[buckets.Frames]{}
		for _, body := range []buckets.Reference{body, stale} {
			for _, bad := range []string{"", "b:1", "c:1"} {
				flip := func() {
					if bad != "" {
						c.nodes[bad].corrupt(t, path, int64(size-1))
					}
				}
				flip()
				for _, id := range []string{"a:1", "b:1", "c:1"} {
					c.wantCopy(body, b, id, id != bad, id != "a:1")
				}
				c.wantRead(body, b)
				flip()
			}
		}
		// Restore writes the layout in the row.
		must(t, c.Restore(t.Context(), path, body, "a:1"))
		v, err := c.Verify(t.Context(), path, body, "a:1", nil)
		if err != nil || !v.Framed {
			t.Errorf("restored copy: %+v, %v", v, err)
		}
	}
}

func TestOpenStored(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 5000, 2 * chunkSize, 5*chunkSize + 3} {
		c := newCluster(t, time.Minute, "a:1", "b:1")
		b := content(size)
		body := c.mustWrite(b, 2)
		file, err := os.ReadFile(filepath.Join(c.nodes["b:1"].dir, path))
		must(t, err)
		if size > 0 {
			c.nodes["a:1"].corrupt(t, path, int64(size-1))
		}
		stored := func(body buckets.Reference, want []byte) {
			t.Helper()
			r, n, err := c.OpenStored(t.Context(), path, body)
			must(t, err)
			got, err := io.ReadAll(r)
			must(t, errors.Join(err, r.Close()))
			if n != int64(len(want)) || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, announced %d; want %d", len(got), n, len(want))
			}
		}
		for range 4 {
			stored(body, file)
			garbage := body
			garbage.Frames = optional.Of[buckets.Frames]{}
			stored(garbage, file)
		}
		stored(c.legacy(b, body, true), b)
	}
}

// TestNewerFormat checks that a later release's copy is neither returned nor reported as damaged.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	for _, at := range []int{3, 7} { // version and flags
		c := newCluster(t, time.Minute, "a:1", "b:1")
		b := content(3 * chunkSize)
		body := c.mustWrite(b, 2)
		c.nodes["a:1"].change(t, func(file []byte) []byte {
			for f := range slices.Chunk(file, frameSize) {
				trailer := f[len(f)-trailerSize:]
				trailer[at]++
				binary.BigEndian.PutUint64(trailer[24:], checksum.UpdateCRC64(0, f[:len(f)-8]))
			}
			return file
		})
		for range 5 {
			c.wantRead(body, b)
		}
		body.Sharks = []string{"a:1"}
		_, err := c.read(body, 0, 1)
		wantCode(t, "read", err, errcode.Internal)
		if errors.Is(err, blobs.ErrCorrupt) {
			t.Errorf("%v: it is not damaged", err)
		}
		if p := c.problems(); slices.Contains(p, "a:1 corrupt") {
			t.Errorf("found %q", p)
		}
	}
}

// TestWrongRow reads good chunks whose row names another checksum.
func TestWrongRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1")
		body := c.mustWrite(b, 1)
		body.Frames.Value.CRC64NVME++
		got, err := c.read(body, 0, -1)
		if !errors.Is(err, blobs.ErrCorrupt) || len(got) >= len(b) {
			t.Errorf("read %d bytes, %v; want ErrCorrupt before the last chunk", len(got), err)
		}
		if _, err := c.Verify(t.Context(), path, body, "a:1", nil); !errors.Is(err, blobs.ErrCorrupt) {
			t.Errorf("verify: %v, want ErrCorrupt", err)
		}
	})
}

func TestPace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1")
	b := content(5*chunkSize + 1)
	body := c.mustWrite(b, 1)
	calls, stop := 0, errors.New("stop")
	pace := func(_ context.Context, n int) error {
		if n != frameSize {
			t.Errorf("paced by %d bytes", n)
		}
		if calls++; calls == 9 {
			return stop
		}
		return nil
	}
	must(t, second(c.Verify(t.Context(), path, body, "a:1", pace)))
	if calls != 6 {
		t.Errorf("%d calls, want 6", calls)
	}
	if _, err := c.Verify(t.Context(), path, body, "a:1", pace); !errors.Is(err, stop) {
		t.Errorf("verify: %v, want the error of the pace", err)
	}
}

// TestRandomDamage checks that a read returns correct bytes or none, and all bytes if each chunk is good in some copy.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range damages {
			if !yield(name) {
				return
			}
		}
	})
	c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
	rapid.Check(t, func(rt *rapid.T) {
		b := content(rapid.IntRange(2*chunkSize, 6*chunkSize).Draw(rt, "size"))
		copies := rapid.IntRange(1, 3).Draw(rt, "copies")
		body := c.mustWrite(b, copies)
		good := files(c, body)
		for range rapid.IntRange(0, 4).Draw(rt, "damages") {
			id := rapid.SampledFrom(body.Sharks).Draw(rt, "node")
			damage, at := damages[rapid.SampledFrom(names).Draw(rt, "damage")], rapid.IntRange(0, 1<<20).Draw(rt, "at")
			c.nodes[id].change(c.t, func(b []byte) []byte {
				if len(b) < 2*frameSize {
					return b
				}
				return damage(b, at)
			})
		}
		bad := badChunks(good, files(c, body))
		for range 8 {
			offset := rapid.IntRange(0, len(b)-1).Draw(rt, "offset")
			length := rapid.IntRange(1, len(b)-offset).Draw(rt, "length")
			got, err := c.read(body, int64(offset), int64(length))
			if !bytes.HasPrefix(b[offset:offset+length], got) {
				rt.Fatal("wrong bytes")
			}
			wantErr := slices.Contains(bad[offset/chunkSize:(offset+length-1)/chunkSize+1], true)
			if (err != nil) != wantErr || err == nil && len(got) != length || err != nil && !errors.Is(err, blobs.ErrCorrupt) {
				rt.Fatalf("read %d of %d bytes, %v; bad chunks: %v", len(got), length, err, bad)
			}
		}
		must(c.t, c.Remove(c.t.Context(), path, body.Sharks))
	})
}

func files(c *cluster, body buckets.Reference) (all [][]byte) {
	for _, id := range body.Sharks {
		b, err := os.ReadFile(filepath.Join(c.nodes[id].dir, path))
		must(c.t, err)
		all = append(all, b)
	}
	return all
}

// badChunks reports for each chunk whether it differs in all copies.
func badChunks(before, after [][]byte) (bad []bool) {
	for at := 0; at < len(before[0]); at += frameSize {
		frame := before[0][at:min(at+frameSize, len(before[0]))]
		bad = append(bad, !slices.ContainsFunc(after, func(b []byte) bool {
			return len(b) >= at+len(frame) && bytes.Equal(b[at:at+len(frame)], frame)
		}))
	}
	return bad
}

// summed is a source that returns its bytes' CRC64NVME plus an error.
type summed struct {
	io.Reader
	sum   uint64
	wrong uint64
}

func (s *summed) Read(p []byte) (n int, err error) {
	n, err = s.Reader.Read(p[:min(len(p), 50_000)])
	s.sum = checksum.UpdateCRC64(s.sum, p[:n])
	return n, err
}

func (s *summed) CRC64NVME() (uint64, bool) { return s.sum ^ s.wrong, true }

// TestSummedSource checks that chunk checksums are derived from the source's checksums, not computed again.
func TestSummedSource(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "b:1")
	for _, size := range []int{1, chunkSize - 1, chunkSize, chunkSize + 1, 5 * chunkSize, 2<<20 + 3} {
		b := content(size)
		stored, err := c.Write(t.Context(), path, int64(size), 2, &summed{Reader: bytes.NewReader(b)})
		must(t, err)
		if got, want := stored.Frames.CRC64NVME, checksum.UpdateCRC64(0, b); got != want {
			t.Errorf("%d bytes: the checksum is %x, want %x", size, got, want)
		}
		body := bodyOf(b, stored)
		c.wantRead(body, b)
		c.wantRanges(body, b)
		must(t, c.Remove(t.Context(), path, body.Sharks))

		stored, err = c.Write(t.Context(), path, int64(size), 2, &summed{Reader: bytes.NewReader(b), wrong: 1})
		must(t, err)
		if got, want := stored.Frames.CRC64NVME, checksum.UpdateCRC64(0, b)^1; got != want {
			t.Errorf("%d bytes: the checksum is %x, want the source's, %x", size, got, want)
		}
		must(t, c.Remove(t.Context(), path, stored.Sharks))
	}
	if p := c.problems(); len(p) > 0 {
		t.Errorf("found %q", p)
	}
}
