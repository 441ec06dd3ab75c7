package blobs_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
)

// benchCluster stores bodies on the working directory's disk, because the temporary folder may be in memory.
// HOLDFAST_BENCH_DIR chooses another folder.
func benchCluster(b *testing.B, nodes int) (*blobs.Cluster, string) {
	b.Helper()
	parent := os.Getenv("HOLDFAST_BENCH_DIR")
	if parent == "" {
		parent = "."
	}
	dir, err := os.MkdirTemp(parent, "bench-*") //nolint:usetesting // b.TempDir may be in memory
	must(b, err)
	c := blobs.NewCluster(blobs.Options{Clock: time.Now})
	var all []blobs.Node
	for i := range nodes {
		id, dir := fmt.Sprintf("dc:%d", i), filepath.Join(dir, fmt.Sprint(i))
		must(b, filedriver.Init(dir, id))
		all = append(all, blobs.Node{ID: id, State: buckets.NodeActive, Driver: filedriver.New(dir, id)})
	}
	c.Set(all...)
	b.Cleanup(func() {
		must(b, errors.Join(c.Close(context.Background()), os.RemoveAll(dir)))
	})
	return c, dir
}

func bareWrite(name string, body io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.TeeReader(body, md5.New()), make([]byte, 128<<10))
	return errors.Join(err, f.Sync(), f.Close())
}

// BenchmarkWrite compares a Write of a single copy with writing and syncing a bare file. Both compute an MD5.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int64{4 << 10, 1 << 20, 100 << 20} {
		body := make([]byte, size)
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) {
			_, dir := benchCluster(b, 1)
			b.SetBytes(size)
			for i := 0; b.Loop(); i++ {
				must(b, bareWrite(filepath.Join(dir, fmt.Sprintf("bare%d", i%10)), bytes.NewReader(body)))
			}
		})
		for _, copies := range []int{1, 2} {
			b.Run(fmt.Sprintf("write/%d/copies%d", size, copies), func(b *testing.B) {
				c, _ := benchCluster(b, copies)
				b.SetBytes(size)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					_, err := c.Write(b.Context(), fmt.Sprintf("v2/o/b/00/%d", i%10), size, copies, io.TeeReader(bytes.NewReader(body), md5.New()))
					must(b, err)
				}
			})
		}
	}
}

// BenchmarkRead compares a verified read with reading a bare file and computing its MD5. It also measures ranges of 4
// KiB at random offsets.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int64{4 << 10, 1 << 20, 100 << 20} {
		c, dir := benchCluster(b, 1)
		body := make([]byte, size)
		stored, err := c.Write(b.Context(), "v2/x", size, 1, bytes.NewReader(body))
		must(b, err)
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				f, err := os.Open(filepath.Join(dir, "0", "v2", "x"))
				must(b, err)
				_, err = io.CopyBuffer(struct{ io.Writer }{md5.New()}, struct{ io.Reader }{f}, make([]byte, 128<<10))
				must(b, errors.Join(err, f.Close()))
			}
		})
		want := bodyOf(body, stored)
		b.Run(fmt.Sprintf("read/%d", size), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.Open(b.Context(), "v2/x", want, 0, -1)
				must(b, err)
				_, err = io.Copy(io.Discard, r)
				must(b, errors.Join(err, r.Close()))
			}
		})
		b.Run(fmt.Sprintf("range/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.Open(b.Context(), "v2/x", want, rand.Int64N(size-4096+1), 4096)
				must(b, err)
				_, err = io.Copy(io.Discard, r)
				must(b, errors.Join(err, r.Close()))
			}
		})
	}
}
