package service

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holdfast/internal/fserror"
)

// spare is how many bytes are written to test for disk space. A server writes less at startup, but soon more.
const spare = 1 << 20

// CheckFolder checks that files in a folder can be created and read. otherwise says how to choose another folder.
func CheckFolder(what, dir, otherwise string) Finding {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkNewFolder(what, dir, otherwise)
	case err == nil && !info.IsDir():
		return Finding{State: Wrong, What: what, Says: dir + " is not a folder", Fix: otherwise}
	}
	if err == nil {
		_, err = os.ReadDir(dir)
	}
	if err == nil {
		err = tryWrite(dir)
	}
	if err != nil {
		return folderFinding(what, dir, err, otherwise)
	}
	return Finding{State: OK, What: what, Says: dir + " is writable"}
}

// checkNewFolder checks the nearest existing folder above one that does not exist yet.
func checkNewFolder(what, dir, otherwise string) Finding {
	parent := dir
	for {
		next := filepath.Dir(parent)
		if _, err := os.Stat(next); !errors.Is(err, fs.ErrNotExist) || next == parent {
			parent = next
			break
		}
		parent = next
	}
	tried, err := os.MkdirTemp(parent, ".holdfast-check-*")
	if err == nil {
		err = errors.Join(tryWrite(tried), os.Remove(tried))
	}
	if err != nil {
		f := folderFinding(what, parent, err, "create "+dir+" for the user that runs holdfast; or "+otherwise)
		f.Says = dir + " cannot be created: " + f.Says
		return f
	}
	return Finding{State: OK, What: what, Says: dir + " will be created at the first start"}
}

// CheckLines checks an append-only file and its folder.
func CheckLines(what, path string) Finding {
	const create = "create the folder for the user that runs holdfast"
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return Finding{State: Wrong, What: what, Says: dir + ": " + Reason(err), Fix: fix(err, create)}
	}
	if f := CheckFolder(what, dir, create); f.State != OK {
		return f
	}
	switch f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); {
	case err == nil:
		_ = f.Close() // nothing was written
	case !errors.Is(err, fs.ErrNotExist):
		return Finding{State: Wrong, What: what, Says: path + ": " + Reason(err), Fix: fix(err, "choose another file")}
	}
	return Finding{State: OK, What: what, Says: path}
}

// tryWrite writes and syncs a file as large as spare, and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".holdfast-check-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, spare))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// folderFinding explains an error with a folder.
func folderFinding(what, dir string, err error, otherwise string) Finding {
	f := Finding{State: Wrong, What: what, Says: dir + ": " + Reason(err), Fix: fix(err, otherwise)}
	switch {
	case errors.Is(err, syscall.EROFS):
		f.Says = dir + " is on a read-only file system"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.Says = "the disk of " + dir + " is full, or a quota is used up"
	case errors.Is(err, fs.ErrPermission):
		f.Says = dir + " cannot be written or read: permission denied"
	}
	return f
}

// fix says what to do about an error of the file system. otherwise is another way.
func fix(err error, otherwise string) string {
	if advice := fserror.Advice(err); advice != "" {
		return advice + "; or " + otherwise
	}
	return otherwise
}

// Reason returns an error's text without operation and path.
func Reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// Absolute returns path itself if the current folder is unknown.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
