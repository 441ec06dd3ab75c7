package sigv4

import (
	"bytes"
	"crypto/md5"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"holdfast/internal/checksum"
)

// The digests must not depend on idle cores, and Read must not keep its buffer.
func TestBodyOnIdleCores(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, parallelBody, parallelBody + 1, 1 << 20, 3<<20 + 77} {
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(data)
		sum := checksum.Sum(checksum.CRC32, data)
		for name, cores := range map[string]*Cores{"serial": nil, "none idle": coresOf(0), "one": coresOf(1)} {
			for source, of := range map[string]func(io.Reader) io.Reader{
				"whole":    func(r io.Reader) io.Reader { return r },
				"halves":   iotest.HalfReader,
				"pieces":   func(r io.Reader) io.Reader { return &pieces{r, rand.New(rand.NewPCG(1, uint64(size)))} },
				"late EOF": iotest.DataErrReader,
			} {
				for _, declared := range []int64{int64(size), -1} {
					b, err := newBody(declaredOf(declared, sum), declared, of(bytes.NewReader(data)), BodyOptions{MaxSize: 4 << 20, Cores: cores})
					if err != nil {
						t.Fatal(err)
					}
					got := readClobbering(t, b)
					r, ok := b.Result()
					if !bytes.Equal(got, data) || !ok || r.MD5 != md5.Sum(data) || r.Size != int64(size) || len(r.Checksums) != 1 || r.Checksums[0] != sum {
						t.Fatalf("%s, %s, %d of %d bytes: %d bytes, %v, %+v", name, source, declared, size, len(got), ok, r)
					}
				}
			}
			if cores != nil && cores.idle.Load() != map[string]int64{"none idle": 0, "one": 1}[name] {
				t.Fatalf("%s: %d cores are idle", name, cores.idle.Load())
			}
		}
	}
}

func declaredOf(size int64, sums ...checksum.Checksum) declared {
	return declared{Coding: Coding{payload: payload{mode: modeUnsigned}, size: size}, sums: sums}
}

// readClobbering overwrites its buffer after each read.
func readClobbering(t *testing.T, r io.Reader) (all []byte) {
	t.Helper()
	buffer := make([]byte, 128<<10)
	for {
		n, err := r.Read(buffer)
		all = append(all, buffer[:n]...)
		clear(buffer)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

type pieces struct {
	io.Reader
	*rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), 1+p.IntN(100_000))])
}

// A body that breaks off during its MD5 must leave no goroutine running.
func TestErrorOfBodyOnIdleCore(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	cores := coresOf(1)
	source := io.MultiReader(bytes.NewReader(make([]byte, 200<<10)), iotest.ErrReader(broken))
	b, err := newBody(declaredOf(1<<20), 1<<20, source, BodyOptions{MaxSize: 1 << 20, Cores: cores})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, struct{ io.Reader }{b})
	if !errors.Is(err, broken) || cores.idle.Load() != 1 {
		t.Fatalf("%v, and %d cores are idle", err, cores.idle.Load())
	}
	if _, ok := b.Result(); ok {
		t.Fatal("the body is verified")
	}
}
