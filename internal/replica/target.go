package replica

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// Target stores a replica. Names contain slashes, and segments do not begin with a dot. All methods are safe for
// concurrent use.
type Target interface {
	// Put creates or replaces an object, which is visible, and durable, only when it is complete. It reads body once, to
	// its end; the size is not known before. An error of body fails it.
	Put(ctx context.Context, name string, body io.Reader) error

	// Get reads an object, or returns errcode.NotFound. The caller closes it. ctx need not end its reads: wrap it in
	// NewReader.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// List returns all names with a prefix, sorted; "" is the prefix of all. Implement it by ListOf.
	List(ctx context.Context, prefix string) ([]string, error)

	// Walk calls fn with each name with a prefix, in any order and one at a time. It ends with fn's first error, and
	// returns that.
	Walk(ctx context.Context, prefix string, fn func(name string) error) error

	// Delete deletes an object if it exists.
	Delete(ctx context.Context, name string) error
}

// mostNames limits the bytes of the names that are read at once. A replica lists some ten thousand files of about 80
// bytes, and never its bodies.
const mostNames = 256 << 20

// ListOf implements Target.List by Walk. It returns the names sorted, and fails if somebody added so many objects that
// their names would fill the memory.
func ListOf(ctx context.Context, t Target, prefix string) (names []string, err error) {
	bytes := 0
	err = t.Walk(ctx, prefix, func(name string) error {
		const header = 16 // bytes of a string besides its text
		if bytes += len(name) + header; bytes > mostNames {
			return errcode.Newf(errcode.Unavailable, "the target contains too many objects below %q: expected only those that Holdfast wrote. See who may write to the target", prefix)
		}
		names = append(names, name)
		return nil
	})
	slices.Sort(names)
	return names, err
}

// Folder is a target in a folder, e.g. on another disk. A missing folder is created; Options.Location prevents this for the
// mount point of a disk that was a target before. A folder with other files and no marker is refused. Its content may be
// somebody else's: names are resolved below the folder only, and objects are regular files.
type Folder string

// Put fails if the marker is missing, because the folder's disk may not be mounted.
func (f Folder) Put(ctx context.Context, name string, body io.Reader) error {
	marked, err := fserror.Exists(filepath.Join(string(f), MarkerName))
	switch {
	case err != nil:
		return f.fail("write", err)
	case !marked && name != MarkerName:
		return errcode.Newf(errcode.Unavailable, "the folder contains no %s: is its disk mounted?", MarkerName)
	}
	if name == MarkerName {
		if err := durable.MakeFolder(string(f)); err != nil {
			return f.fail("write", err)
		}
	}
	return f.fail("write", f.in(func(folder *durable.Folder) error {
		if above := path.Dir(name); above != "." {
			if err := folder.MakeFolder(above); err != nil {
				return err
			}
		}
		return folder.Replace(name, func(w io.Writer) error {
			_, err := io.Copy(w, NewReader(ctx, body))
			return err
		})
	}))
}

func (f Folder) Get(_ context.Context, name string) (file io.ReadCloser, err error) {
	err = f.in(func(folder *durable.Folder) (err error) {
		file, err = folder.Open(name)
		return err
	})
	if err != nil {
		return nil, f.fail("read", err)
	}
	return file, nil
}

// in calls fn with the open folder.
func (f Folder) in(fn func(*durable.Folder) error) error {
	folder, err := durable.OpenFolder(string(f))
	if err != nil {
		return err
	}
	return errors.Join(fn(folder), folder.Close())
}

func (f Folder) List(ctx context.Context, prefix string) ([]string, error) {
	return ListOf(ctx, f, prefix)
}

func (f Folder) Walk(ctx context.Context, prefix string, fn func(name string) error) error {
	var failed error
	err := filepath.WalkDir(string(f), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the file was deleted, or the folder does not exist yet
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case strings.HasPrefix(d.Name(), ".") && path != string(f):
			return nil
		}
		name, err := filepath.Rel(string(f), path)
		if name = filepath.ToSlash(name); d.IsDir() {
			if !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") && name != "." {
				return fs.SkipDir
			}
			return err
		}
		if err == nil && strings.HasPrefix(name, prefix) {
			failed = fn(name)
			err = failed
		}
		return err
	})
	if failed != nil {
		return failed
	}
	return f.fail("list", err)
}

func (f Folder) Delete(_ context.Context, name string) error {
	err := f.in(func(folder *durable.Folder) error { return folder.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.fail("delete", err)
}

// fail gives an error its code.
func (Folder) fail(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errcode.Wrap(errcode.NotFound, "the replica lacks the object", err)
	}
	return errcode.Wrap(errcode.Unavailable, "cannot "+what+" an object of the replica", err)
}

// NewReader returns a reader that returns ctx's error from the first Read after ctx is done. A Read that waits for r does
// not end sooner.
func NewReader(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context //nolint:containedctx // of the call
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
