package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
)

// Folder is an open folder for files whose names somebody else chose, e.g. the author of a backup. Its methods give
// the guarantees of the package's functions of the same name, and resolve names below the folder only: they refuse a
// name that CheckName refuses, and a symbolic link that leaves the folder. A folder that is renamed or replaced by a
// link after OpenFolder does not redirect them.
type Folder struct{ root *os.Root }

// OpenFolder opens a folder whose path the operator or the server chose.
func OpenFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// longestName is the limit of the usual file systems for one part of a path, in bytes.
const longestName = 255

var errName = errors.New(`a name in the archive is refused: expected a path below the folder, without "..", control characters or backslashes`)

// CheckName refuses a name that is not a plain path below a folder. The error does not quote the name, which may come
// from an attacker.
func CheckName(name string) error {
	if !fs.ValidPath(filepath.ToSlash(name)) || !filepath.IsLocal(name) || name == "." || filepath.ToSlash(name) == name && strings.Contains(name, `\`) {
		return errName
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return errName
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if len(part) > longestName {
			return fmt.Errorf("a name in the archive is refused: expected at most %d bytes between slashes", longestName)
		}
	}
	return nil
}

func (f *Folder) Close() error { return f.root.Close() }

// Path returns the path that OpenFolder got, or the path below it.
func (f *Folder) Path() string { return f.root.Name() }

// Create writes a file, and fails with fs.ErrExist if it exists, also as a link.
func (f *Folder) Create(name string, write func(io.Writer) error) error {
	return f.write(name, true, write)
}

func (f *Folder) Replace(name string, write func(io.Writer) error) error {
	return f.write(name, false, write)
}

func (f *Folder) write(name string, fresh bool, write func(io.Writer) error) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return File{Name: name, shown: f.path(name)}.write(within{f.root}, fresh, write)
}

// Move durably renames a file or folder below the folder. It replaces an existing file.
func (f *Folder) Move(from, to string) error {
	if err := errors.Join(CheckName(from), CheckName(to)); err != nil {
		return err
	}
	return rename(within{f.root}, from, to)
}

// MakeFolder durably creates a folder and its parents with mode 0700, or finds them.
func (f *Folder) MakeFolder(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return makeFolder(within{f.root}, name)
}

// NewFolder durably creates a folder with mode 0700 and opens it. It fails with fs.ErrExist if the name exists, also as
// a link, so that nobody else owns the folder.
func (f *Folder) NewFolder(name string) (*Folder, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	on := within{f.root}
	if err := errors.Join(on.mkdir(name), syncFolder(on, filepath.Dir(name))); err != nil {
		return nil, err
	}
	return f.OpenFolder(name)
}

// OpenFolder opens a folder below the folder.
func (f *Folder) OpenFolder(name string) (*Folder, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := within{f.root}.openRoot(name)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Scratch creates a file that need not survive a power cut, and opens it to write and read. It replaces a file that a
// killed process left.
func (f *Folder) Scratch(name string) (*os.File, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
}

// Open opens a regular file to read. It refuses links, and neither waits for the writer of a FIFO nor opens devices.
func (f *Folder) Open(name string) (*os.File, error) {
	before, err := f.regular(name)
	if err != nil {
		return nil, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = notRegular(f.path(name))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// FileName returns the path of a regular file, for a library that opens files itself, e.g. SQLite. The folder must
// belong to this process, so that nobody can replace the file between the check and the use.
func (f *Folder) FileName(name string) (string, error) {
	_, err := f.regular(name)
	return f.path(name), err
}

func (f *Folder) regular(name string) (fs.FileInfo, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	info, err := f.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(f.path(name))
	}
	return info, err
}

func notRegular(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("expected a regular file, not a link, folder or device")}
}

// Exists reports whether a name exists, also as a link that leads nowhere.
func (f *Folder) Exists(name string) (bool, error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	_, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Entries lists the folder's own names.
func (f *Folder) Entries() ([]fs.DirEntry, error) { return fs.ReadDir(f.root.FS(), ".") }

// Remove deletes a file, a link or an empty folder.
func (f *Folder) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return f.root.Remove(name)
}

// RemoveAll deletes a file or a folder with its content, and does not follow links.
func (f *Folder) RemoveAll(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return f.root.RemoveAll(name)
}

// Sync makes the folder's own names durable.
func (f *Folder) Sync() error { return SyncIn(f.root, ".") }

func (f *Folder) path(name string) string { return filepath.Join(f.root.Name(), name) }

// within is the part of the disk below a folder.
type within struct{ root *os.Root }

func (w within) open(path string) (folder, error) {
	root, err := w.openRoot(path)
	if err != nil {
		return nil, err
	}
	return openFolder{root}, nil
}

// openRoot checks the kind first, because opening a FIFO would wait for its writer.
func (w within) openRoot(path string) (*os.Root, error) {
	info, err := w.root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(w.root.Name(), path), Err: errors.New("expected a folder")}
	}
	return w.root.OpenRoot(path)
}

func (w within) mkdir(path string) error { return w.root.Mkdir(path, 0o700) }

func (w within) rename(from, to string) error { return w.root.Rename(from, to) }
