package filedriver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"syscall"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

// Get implements blobs.Driver.
func (d *Driver) Get(ctx context.Context, name string, offset, length int64) (blobs.Reader, error) {
	if err := errors.Join(blobs.CheckPath(name), ctx.Err()); err != nil {
		return nil, err
	}
	at, err := d.open()
	if err != nil {
		return nil, err
	}
	f, err := at.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the writer of a FIFO
	if err != nil {
		return nil, d.fail("open file", name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		_ = f.Close()
		return nil, d.fail("open file", "", err)
	case !info.Mode().IsRegular():
		_ = f.Close()
		return nil, blobs.NotFound(d.id, name)
	case offset < 0 || length < -1 || offset > info.Size() || offset == info.Size() && offset > 0:
		_ = f.Close()
		return nil, blobs.ErrRange()
	}
	if length < 0 || length > info.Size()-offset {
		length = info.Size() - offset
	}
	return &reader{ctx: ctx, driver: d, file: f, size: info.Size(), section: io.NewSectionReader(f, offset, length)}, nil
}

type reader struct {
	ctx     context.Context //nolint:containedctx // the request's
	driver  *Driver
	file    *os.File
	size    int64
	section *io.SectionReader
}

func (r *reader) Size() int64 { return r.size }

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.section.Read(p)
	if err != nil && !blobs.IsEnd(err) {
		err = r.driver.fail("read file", "", err)
	}
	return n, err
}

func (r *reader) Close() error { return r.file.Close() }

// Stat implements blobs.Driver.
func (d *Driver) Stat(ctx context.Context, name string) (blobs.Info, error) {
	if err := errors.Join(blobs.CheckPath(name), ctx.Err()); err != nil {
		return blobs.Info{}, err
	}
	at, err := d.open()
	if err != nil {
		return blobs.Info{}, err
	}
	info, err := at.root.Lstat(name)
	if err != nil {
		return blobs.Info{}, d.fail("read file", name, err)
	}
	if !info.Mode().IsRegular() {
		return blobs.Info{}, blobs.NotFound(d.id, name)
	}
	return blobs.Info{Path: name, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete implements blobs.Driver.
func (d *Driver) Delete(ctx context.Context, name string) error {
	if err := errors.Join(blobs.CheckFile(name), ctx.Err()); err != nil {
		return err
	}
	at, err := d.open()
	if err != nil {
		return err
	}
	err = at.remove(name)
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil && !errcode.Is(err, errcode.Invalid) {
			err = d.fail("remove file", "", err)
		}
		return err
	}
	// If the disk was unmounted, every body seems to be missing.
	_, err = d.verify()
	return err
}

// remove also syncs the folder if the file is missing, because the file may have been removed just before the process
// was killed.
func (at *disk) remove(name string) error {
	folder := path.Dir(name)
	info, missing := at.root.Lstat(name)
	switch {
	case missing == nil && info.IsDir():
		return errFolder
	case missing == nil:
		missing = at.root.Remove(name)
	}
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	// Another Delete may have removed the empty folder.
	if err := at.folders.syncByName(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	at.folders.removeEmpty(folder)
	return missing
}

var errFolder = errcode.New(errcode.Invalid, "path: expected a body, found a folder")

// Walk holds one folder per level in memory.
func (d *Driver) Walk(ctx context.Context, after string) iter.Seq2[blobs.Info, error] {
	return func(yield func(blobs.Info, error) bool) {
		at, err := d.verify()
		if err != nil {
			yield(blobs.Info{}, err)
			return
		}
		w := walk{ctx: ctx, root: at.root, after: after, yield: yield}
		if err := w.folder("."); err != nil && !errors.Is(err, errStopped) {
			yield(blobs.Info{}, d.fail("read folder", "", err))
		}
	}
}

var errStopped = errors.New("stopped")

// walk lists files in byte order of their paths.
type walk struct {
	ctx   context.Context //nolint:containedctx // the request's
	root  *os.Root
	after string // exclusive
	yield func(blobs.Info, error) bool
}

// folder lists a folder and its folders.
func (w *walk) folder(folder string) error {
	entries, err := readFolder(w.root, folder)
	if err != nil {
		if folder != "." && errors.Is(err, fs.ErrNotExist) {
			return nil // removed since it was listed
		}
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(path.Join(folder, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// entry yields a file, or walks a folder unless all its paths come before after. Other names, such as the marker, are
// skipped.
func (w *walk) entry(name string, e fs.DirEntry) error {
	isFile, isFolder := blobs.CheckFile(name) == nil, blobs.CheckPath(name) == nil
	switch {
	case !isFile:
		return nil
	case e.IsDir():
		if !isFolder || isBefore(name, w.after) {
			return nil
		}
		return w.folder(name)
	case name <= w.after || !e.Type().IsRegular():
		return nil
	}
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted or renamed since it was listed
	} else if err != nil {
		return err
	}
	file := blobs.Info{Path: name, Size: info.Size(), Modified: info.ModTime(), Temporary: blobs.IsTemporary(name)}
	if !w.yield(file, nil) {
		return errStopped
	}
	return nil
}
