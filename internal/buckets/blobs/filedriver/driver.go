// Package filedriver stores bodies in a folder, usually the root of its own file system. It writes a temporary file
// next to the body, syncs it, renames it and syncs the folder.
package filedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Driver stores bodies in a folder. It opens the folder on first use and again after a failure, so a disk may be
// mounted later.
type Driver struct {
	id, dir string
	process string

	mu     sync.Mutex
	closed bool
	disk   *disk
}

// disk is an open folder.
type disk struct {
	root    *os.Root
	folders *folders
}

var _ blobs.Driver = (*Driver)(nil)

// Init creates the folder if needed and writes the marker. It rejects a folder that contains other files or belongs
// to another node.
func Init(dir, id string) error {
	if err := makeFolder(dir); err != nil {
		return cannotCreate(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return errcode.Wrap(errcode.Invalid, "open folder "+dir, err)
	}
	defer func() { _ = root.Close() }()
	if isNew, err := checkFolder(root, dir, id); err != nil || !isNew {
		return err
	}
	if err := writeMarker(root, id); err != nil {
		return errcode.Wrap(errcode.Unavailable, fmt.Sprintf("write %s in folder %s", blobs.MarkerName, dir), err)
	}
	return nil
}

// CheckInit returns the error that Init would return, without changing anything.
func CheckInit(dir, id string) error {
	root, err := os.OpenRoot(dir)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		if root, err = os.OpenRoot(filepath.Dir(filepath.Clean(dir))); err != nil {
			return cannotCreate(dir, err)
		}
	default:
		return errcode.Wrap(errcode.Invalid, "open folder "+dir, err)
	}
	defer func() { _ = root.Close() }()
	isNew := true
	if filepath.Clean(root.Name()) == filepath.Clean(dir) {
		if isNew, err = checkFolder(root, dir, id); err != nil {
			return err
		}
	}
	opened, err := root.Open(".")
	if err != nil {
		return errcode.Wrap(errcode.Invalid, "open folder "+root.Name(), err)
	}
	defer func() { _ = opened.Close() }()
	if isNew && !isWritable(opened) {
		return errcode.Newf(errcode.Invalid, "folder %s is read-only, or belongs to another user than that of the server", root.Name())
	}
	return nil
}

// cannotCreate explains which folder is missing.
func cannotCreate(dir string, err error) error {
	above := filepath.Dir(filepath.Clean(dir))
	if _, missing := os.Stat(above); errors.Is(missing, fs.ErrNotExist) {
		return errcode.Newf(errcode.Invalid, "cannot create folder %s, because %s does not exist: create it, or mount its disk", dir, above)
	}
	return errcode.Wrap(errcode.Invalid, "create folder "+dir, err)
}

// checkFolder reports whether the folder is empty and can become the node. It returns an error if it belongs to another
// node.
func checkFolder(root *os.Root, dir, id string) (isNew bool, err error) {
	if err := checkMarker(root, dir, id); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, checkEmpty(root, dir)
}

// makeFolder durably creates a folder. Its parent must exist, so that a typo does not create a tree somewhere.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist: mount its disk, or create it", filepath.Dir(filepath.Clean(dir)))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	return durable.SyncIn(parent, ".")
}

// checkEmpty ignores lost+found and temporary files, which may be the marker of a killed Init.
func checkEmpty(root *os.Root, dir string) error {
	entries, err := readFolder(root, ".")
	if err != nil {
		return errcode.Wrap(errcode.Unavailable, "read folder "+dir, err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "lost+found" && !blobs.IsTemporary(name) {
			return errcode.Newf(errcode.Invalid, "folder %s has files but no %s: expected an empty folder", dir, blobs.MarkerName)
		}
	}
	return nil
}

// writeMarker writes and syncs the marker under a temporary name first: a half-written marker would name another node.
func writeMarker(root *os.Root, id string) error {
	f, name, err := createTemporary(root, blobs.TemporaryPrefix)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(name, blobs.MarkerName)
	}
	if err != nil {
		_ = root.Remove(name)
		return err
	}
	return durable.SyncIn(root, ".")
}

// checkMarker returns errcode.Unavailable unless the folder carries this node's ID. If the marker is missing, the error
// also is fs.ErrNotExist.
func checkMarker(root *os.Root, dir, id string) error {
	marker, err := root.ReadFile(blobs.MarkerName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return blobs.Unavailable(id, fmt.Sprintf("folder %s has no file %s: is the disk mounted?", dir, blobs.MarkerName), err)
	case err != nil:
		return blobs.Unavailable(id, fmt.Sprintf("read %s in folder %s", blobs.MarkerName, dir), err)
	}
	if owner := strings.TrimSpace(string(marker)); owner != id {
		return errcode.Newf(errcode.Unavailable, "storage node %s: folder %s is the storage node %.200q", id, dir, owner)
	}
	return nil
}

// New returns a driver for a folder prepared by Init. The folder may be unavailable.
func New(dir, id string) *Driver { return &Driver{id: id, dir: dir} }

// Of sets the process name in temporary files, so that other processes can remove them if this one dies. Call it
// before first use.
func (d *Driver) Of(process string) *Driver {
	d.process = process
	return d
}

// TemporaryOf returns the prefix of a process's temporary files.
func TemporaryOf(process string) string {
	if process == "" {
		return blobs.TemporaryPrefix
	}
	return blobs.TemporaryPrefix + process + "-"
}

// open returns the open folder, and opens and checks it first if necessary.
func (d *Driver) open() (*disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, errcode.Newf(errcode.Unavailable, "storage node %s is closed", d.id)
	case d.disk != nil:
		return d.disk, nil
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, blobs.Unavailable(d.id, fmt.Sprintf("folder %s does not open: is the disk mounted?", d.dir), err)
	}
	if err := checkMarker(root, d.dir, d.id); err != nil {
		_ = root.Close()
		return nil, err
	}
	d.disk = &disk{root: root, folders: newFolders(root, TemporaryOf(d.process))}
	return d.disk, nil
}

// verify reopens the folder unless it is still in place with its marker.
func (d *Driver) verify() (*disk, error) {
	now, err := d.open()
	if err != nil {
		return nil, err
	}
	opened, err1 := now.root.Stat(".")
	here, err2 := os.Stat(d.dir)
	if err1 == nil && err2 == nil && os.SameFile(opened, here) && checkMarker(now.root, d.dir, d.id) == nil {
		return now, nil
	}
	d.mu.Lock()
	if d.disk == now {
		d.disk = nil
		_ = now.root.Close()
	}
	d.mu.Unlock()
	return d.open()
}

// Close implements blobs.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.disk == nil {
		return nil
	}
	err := d.disk.root.Close()
	d.disk = nil
	return err
}

// fail gives a file system error a code. With a name, a missing file is errcode.NotFound, unless the whole folder is
// missing.
func (d *Driver) fail(what, name string, err error) error {
	switch {
	case isFull(err):
		return blobs.NotEnoughSpace(d.id, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist) && name != "":
		if _, err := d.verify(); err != nil {
			return err
		}
		return blobs.NotFound(d.id, name)
	}
	if _, err := d.verify(); err != nil {
		return err
	}
	return blobs.Unavailable(d.id, what, err)
}

// Space reads the free space for users without privileges.
func (d *Driver) Space(ctx context.Context) (blobs.Space, error) {
	if err := ctx.Err(); err != nil {
		return blobs.Space{}, err
	}
	at, err := d.verify()
	if err != nil {
		return blobs.Space{}, err
	}
	folder, err := at.root.Open(".")
	if err != nil {
		return blobs.Space{}, d.fail("open folder", "", err)
	}
	defer func() { _ = folder.Close() }()
	space, err := freeSpace(folder)
	if err != nil {
		return blobs.Space{}, d.fail("read free space", "", err)
	}
	return space, nil
}
