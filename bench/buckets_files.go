package main

import (
	"context"
	"crypto/md5" //nolint:gosec // the ETag of S3
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"holdfast/internal/checksum"
)

// bucketsFiles copies body files without a server, but computes the server's checksums: the CRC64NVME that verifies
// reads, and the MD5 (ETag) for a PUT.
type bucketsFiles struct {
	dir   string
	load  *s3Load
	mixed map[int]*mixed // by object size; only for rows
	last  atomic.Int64
}

func newFiles(w *s3Load) (*bucketsFiles, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	f := &bucketsFiles{dir: dir, load: w, mixed: w.newMixed()}
	for _, size := range []int{s3Small, s3Mixed, s3Middle, w.size.large} {
		if err := os.WriteFile(f.source(size), w.body(size), 0o600); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

func (f *bucketsFiles) close() error { return os.RemoveAll(f.dir) }

func (f *bucketsFiles) source(size int) string {
	return filepath.Join(f.dir, fmt.Sprint("source-", size))
}

func (f *bucketsFiles) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	size, put := 0, false
	switch operation {
	case workPutSmall:
		size, put = s3Small, true
	case workPutMiddle:
		size, put = s3Middle, true
	case workPutLarge:
		size, put = f.load.size.large, true
	case workGetMiddle:
		size = s3Middle
	case workGetLarge:
		size = f.load.size.large
	default:
		return 0, unknown(operation)
	}
	return rate(ctx, callers, lasting(d), func(context.Context, int, int) error { return f.copy(size, put) })
}

const copyBuffer = 128 << 10

func (f *bucketsFiles) copy(size int, durable bool) error {
	from, err := os.Open(f.source(size))
	if err != nil {
		return err
	}
	defer from.Close()
	name := filepath.Join(f.dir, fmt.Sprint("copy-", f.last.Add(1)))
	to, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	sums := []io.Writer{to, checksum.CRC64NVME.New()}
	if durable {
		sums = append(sums, md5.New()) //nolint:gosec // the ETag of S3
	}
	// The struct hides ReadFrom and WriteTo, because a server has the bytes in memory.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(sums...)}, struct{ io.Reader }{from}, make([]byte, copyBuffer))
	if err == nil && n != int64(size) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && durable {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if !durable {
		return os.Remove(to.Name())
	}
	if err := os.Rename(to.Name(), name); err != nil {
		return err
	}
	folder, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
