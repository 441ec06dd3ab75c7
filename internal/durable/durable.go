// Package durable writes files that survive a power failure: it writes and syncs a temporary file, renames it, and
// syncs the folder. After success, the file is on disk under its name. After an earlier power failure, the name
// refers to the old file, nothing, or the complete new file.
//
// Holdfast renames and links files only here; internal/archtest lists the few exceptions.
package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File is a file to write with other settings than Replace and Create.
type File struct {
	Name string      // path
	Mode fs.FileMode // default 0600

	// Temporary starts the incomplete file's name. Default: the name, hidden and without extension, e.g. ".secrets-"
	// for secrets.toml.
	Temporary string

	shown string // the path in errors; default: Name
}

// Replace writes a file, and replaces one that exists. write may fail; then nothing changed.
func Replace(name string, write func(io.Writer) error) error {
	return File{Name: name}.Replace(write)
}

// Create writes a file, and fails with fs.ErrExist if it exists.
func Create(name string, write func(io.Writer) error) error {
	return File{Name: name}.Create(write)
}

// Bytes returns a function for Replace or Create that writes text.
func Bytes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// Replace is the function Replace with f's settings.
func (f File) Replace(write func(io.Writer) error) error { return f.write(system{}, false, write) }

// Create is the function Create with f's settings.
func (f File) Create(write func(io.Writer) error) error { return f.write(system{}, true, write) }

// Rename durably renames a file or folder, whose content must be durable already.
func Rename(from, to string) error { return rename(system{}, from, to) }

// MakeFolder durably creates a folder and its parents with mode 0700. An existing folder may be new, too, from a
// killed process, so it is made durable if this user may read its parent.
func MakeFolder(path string) error { return makeFolder(system{}, filepath.Clean(path)) }

// SyncFolder makes a folder's names durable.
func SyncFolder(path string) error { return syncFolder(system{}, path) }

// SyncIn makes the names in a folder below root durable.
func SyncIn(root *os.Root, folder string) error {
	f, err := root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(ignoreUnsupported(syncNames(f)), f.Close())
}

// disk is the file system. Tests lose unsynced data.
type disk interface {
	open(path string) (folder, error)
	mkdir(path string) error
	rename(from, to string) error
}

// folder is an open folder.
type folder interface {
	create(name string, mode fs.FileMode) (file, error)
	link(from, to string) error
	rename(from, to string) error
	remove(name string) error
	sync() error
	Close() error
}

// file is an open file.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// write writes a temporary file and then gives it its name; fresh fails if the name exists.
func (f File) write(on disk, fresh bool, write func(io.Writer) error) (err error) {
	dir, base := filepath.Split(filepath.Clean(f.Name))
	opened, err := on.open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	temporary := f.temporary(base)
	to, err := opened.create(temporary, f.Mode)
	if err != nil {
		return f.named(err)
	}
	isOpen, exists := true, true
	defer func() { // even if write panics
		if isOpen {
			_ = to.Close()
		}
		if exists {
			err = errors.Join(err, f.named(opened.remove(temporary)))
		}
	}()
	if err := write(to); err != nil {
		return err
	}
	isOpen = false
	if err := errors.Join(to.Sync(), to.Close()); err != nil {
		return f.named(err)
	}
	if fresh {
		err = opened.link(temporary, base)
	} else {
		err = opened.rename(temporary, base)
		exists = err != nil
	}
	if err != nil {
		return f.named(err)
	}
	return f.named(opened.sync())
}

// temporary returns the name of the incomplete file: random, so that two processes do not meet.
func (f File) temporary(base string) string {
	prefix := f.Temporary
	if prefix == "" {
		prefix = "." + strings.TrimPrefix(strings.TrimSuffix(base, filepath.Ext(base)), ".") + "-"
	}
	return fmt.Sprintf("%s%016x", prefix, rand.Uint64())
}

// named replaces the temporary name in an error, which the user does not know.
func (f File) named(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: cmp.Or(f.shown, f.Name), Err: e.Err}
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: e.Op, Path: cmp.Or(f.shown, f.Name), Err: e.Err}
	}
	return err
}

func rename(on disk, from, to string) error {
	if err := on.rename(from, to); err != nil {
		return err
	}
	above, before := filepath.Dir(filepath.Clean(to)), filepath.Dir(filepath.Clean(from))
	err := syncFolder(on, above)
	if before != above {
		err = errors.Join(err, syncFolder(on, before))
	}
	return err
}

func makeFolder(on disk, path string) error {
	above := filepath.Dir(path)
	err := on.mkdir(path)
	if errors.Is(err, fs.ErrNotExist) && above != path {
		if err := makeFolder(on, above); err != nil {
			return err
		}
		err = on.mkdir(path)
	}
	exists := errors.Is(err, fs.ErrExist)
	if err != nil && !exists {
		return err
	}
	if exists {
		opened, err := on.open(path)
		if err != nil {
			return err
		}
		if err := opened.Close(); err != nil {
			return err
		}
	}
	if err = syncFolder(on, above); exists && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		return nil
	}
	return err
}

func syncFolder(on disk, path string) error {
	opened, err := on.open(path)
	if err != nil {
		return err
	}
	err = opened.sync()
	if err != nil {
		err = fmt.Errorf("make the names in %s durable: %w", path, err)
	}
	return errors.Join(err, opened.Close())
}

// ignoreUnsupported ignores errors of (network) file systems that do not sync folders.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
