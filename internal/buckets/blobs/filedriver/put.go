package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"time"

	"holdfast/internal/buckets/blobs"
)

const bufferSize = 128 << 10 // bytes per write

// window is the number of bytes written back at a time, so that the final sync is short.
const window = 8 << 20

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Put computes no checksum, because the source verifies the MD5 and readers verify again.
func (d *Driver) Put(ctx context.Context, name string, body io.Reader, size int64) (int64, error) {
	if err := blobs.CheckPath(name); err != nil {
		return 0, err
	}
	at, err := d.open()
	if err != nil {
		return 0, err
	}
	folder := path.Dir(name)
	t, err := at.folders.create(folder)
	if err != nil {
		return 0, d.fail("create file", "", err)
	}
	finished := false
	defer func() { // even if body panics
		if !finished {
			t.discard()
		}
		_ = t.folder.Close()
	}()
	n, err := copyBody(ctx, t.file, body, size)
	if err == nil {
		err = t.commit(path.Base(name))
	}
	if err == nil {
		err = at.folders.sync(folder, t.folder)
	}
	switch {
	case err == nil:
		finished = true
		return n, nil
	case blobs.IsSourceError(err):
		return 0, err
	default:
		return 0, d.fail("write file", "", err)
	}
}

// copyBody writes and syncs the body. An error from the reader is a SourceError.
func copyBody(ctx context.Context, to *os.File, body io.Reader, size int64) (int64, error) {
	w := &writer{ctx: ctx, file: to, size: size}
	var err error
	if from, ok := body.(io.WriterTo); ok {
		_, err = from.WriteTo(w)
	} else {
		buffer := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(buffer)
		_, err = io.CopyBuffer(w, body, buffer[:])
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case err != nil:
		return 0, blobs.SourceError(err)
	}
	if err := errors.Join(blobs.CheckSize(w.total, size), ctx.Err()); err != nil {
		return 0, err
	}
	return w.total, to.Sync()
}

// writer checks the size while it writes, and writes back in windows.
type writer struct {
	ctx         context.Context //nolint:containedctx // the request's
	file        *os.File
	size, total int64
	err         error // remembered, because io.Copy cannot tell whose error it returns
}

func (w *writer) Write(p []byte) (n int, err error) {
	defer func() { w.err = err }()
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	before := w.total
	w.total += int64(len(p))
	if w.size >= 0 && w.total > w.size {
		return 0, blobs.CheckSize(w.total, w.size)
	}
	if n, err = w.file.Write(p); err != nil {
		return n, err
	}
	if w.total/window > before/window {
		err = writeBack(w.file, w.total/window*window, window)
	}
	return n, err
}

// temporary is an unfinished file and its folder.
type temporary struct {
	folder *os.Root
	file   *os.File
	name   string
}

// createTemporary creates a file with a random name that only the owner can read.
func createTemporary(folder *os.Root, prefix string) (*os.File, string, error) {
	name := fmt.Sprintf("%s%016x", prefix, rand.Uint64())
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return f, name, err
}

// commit closes the file before renaming it, because some file systems report failed writes only on close.
func (t *temporary) commit(name string) error {
	file := t.file
	t.file = nil
	if err := file.Close(); err != nil {
		return err
	}
	if err := t.folder.Rename(t.name, name); err != nil {
		return err
	}
	t.name = name
	return nil
}

// discard removes the file, before or after it was closed.
func (t *temporary) discard() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
	_ = t.folder.Remove(t.name)
}

// Copy creates a hard link.
func (d *Driver) Copy(ctx context.Context, from, to string) error {
	if err := errors.Join(blobs.CheckPath(from), blobs.CheckPath(to), ctx.Err()); err != nil {
		return err
	}
	at, err := d.open()
	if err != nil {
		return err
	}
	if _, err := d.Stat(ctx, from); err != nil || from == to {
		return err
	}
	// Hard links share one modification time. An audit must not mistake the new name for an old unreferenced file.
	now := time.Now()
	if err := at.root.Chtimes(from, now, now); err != nil {
		return d.fail("link file", from, err)
	}
	folder := path.Dir(to)
	opened, err := at.folders.link(from, to)
	switch {
	case isNoLink(err):
		return fmt.Errorf("storage node %s: link %s: %w", d.id, to, errors.ErrUnsupported)
	case err != nil:
		return d.fail("link file", from, err)
	}
	defer func() { _ = opened.Close() }()
	if err := at.folders.sync(folder, opened); err != nil {
		_ = opened.Remove(path.Base(to))
		return d.fail("link file", "", err)
	}
	return nil
}

// replaceLink links over an existing file, by a temporary link. It does nothing if both are the same file, because
// rename would then leave the temporary link.
func replaceLink(root *os.Root, from, to string) error {
	a, err1 := root.Lstat(from)
	b, err2 := root.Lstat(to)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if os.SameFile(a, b) {
		return nil
	}
	name := path.Join(path.Dir(to), fmt.Sprintf("%s%016x", blobs.TemporaryPrefix, rand.Uint64()))
	if err := root.Link(from, name); err != nil {
		return err
	}
	if err := root.Rename(name, to); err != nil {
		_ = root.Remove(name)
		return err
	}
	return nil
}

// link creates a hard link in an existing or new folder.
func (f *folders) link(from, to string) (*os.Root, error) {
	return f.in(path.Dir(to), func(*os.Root) error {
		err := f.root.Link(from, to)
		if errors.Is(err, fs.ErrExist) {
			err = replaceLink(f.root, from, to)
		}
		return err
	})
}
