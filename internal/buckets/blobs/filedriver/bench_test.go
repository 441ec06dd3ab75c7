//go:build unix

package filedriver_test

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/buckets/blobs/filedriver"
)

// benchDir returns a folder on the working directory's disk, because the temporary folder may be in memory.
// HOLDFAST_BENCH_DIR chooses another disk.
func benchDir(b *testing.B) string {
	b.Helper()
	parent := os.Getenv("HOLDFAST_BENCH_DIR")
	if parent == "" {
		parent = "."
	}
	dir, err := os.MkdirTemp(parent, "bench-*") //nolint:usetesting // b.TempDir may be in memory
	must(b, err)
	b.Cleanup(func() { must(b, os.RemoveAll(dir)) })
	return dir
}

// bareWrite writes and syncs a file without renaming it, which is the minimum for a durable file.
func bareWrite(name string, body []byte, sync bool) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil && sync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func parallel(b *testing.B, clients int, step func(i int64) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := step(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPut(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 4096)
	for _, clients := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("bare/%d", clients), func(b *testing.B) {
			dir := benchDir(b)
			parallel(b, clients, func(i int64) error {
				return bareWrite(filepath.Join(dir, fmt.Sprint(i)), body, true)
			})
		})
		for _, folders := range []int64{1, 256} {
			b.Run(fmt.Sprintf("put/%d/folders%d", clients, folders), func(b *testing.B) {
				dir := benchDir(b)
				must(b, filedriver.Init(dir, id))
				d := filedriver.New(dir, id)
				for i := range folders {
					must(b, put(b, d, fmt.Sprintf("v2/owner/bucket/%02x/first", i), "x"))
				}
				parallel(b, clients, func(i int64) error {
					_, err := d.Put(b.Context(), fmt.Sprintf("v2/owner/bucket/%02x/%d", i%folders, i), bytes.NewReader(body), 4096)
					return err
				})
			})
		}
	}
}

func BenchmarkStream(b *testing.B) {
	const size = 100 << 20
	body := make([]byte, size)
	b.Run("bare", func(b *testing.B) {
		dir := benchDir(b)
		b.SetBytes(size)
		for i := 0; b.Loop(); i++ {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(i%2)))
			must(b, err)
			_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.TeeReader(bytes.NewReader(body), md5.New()), make([]byte, 128<<10))
			must(b, err)
			must(b, f.Sync())
			must(b, f.Close())
		}
	})
	b.Run("put", func(b *testing.B) {
		dir := benchDir(b)
		must(b, filedriver.Init(dir, id))
		d := filedriver.New(dir, id)
		b.SetBytes(size)
		for i := 0; b.Loop(); i++ {
			_, err := d.Put(b.Context(), fmt.Sprintf("v2/%d", i%2), io.TeeReader(bytes.NewReader(body), md5.New()), size)
			must(b, err)
		}
	})
}

func BenchmarkGet(b *testing.B) {
	dir := benchDir(b)
	must(b, filedriver.Init(dir, id))
	d := filedriver.New(dir, id)
	const path = "v2/owner/bucket/ab/abc,def"
	_, err := d.Put(b.Context(), path, bytes.NewReader(make([]byte, 4096)), 4096)
	must(b, err)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			_, err := os.ReadFile(filepath.Join(dir, path))
			must(b, err)
		}
	})
	b.Run("get", func(b *testing.B) {
		buffer := make([]byte, 4096)
		for b.Loop() {
			r, err := d.Get(b.Context(), path, 0, 4096)
			must(b, err)
			_, err = io.ReadFull(r, buffer)
			must(b, err)
			must(b, r.Close())
		}
	})
}
