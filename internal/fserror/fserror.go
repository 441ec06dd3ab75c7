// Package fserror explains errors of the file system to the person who can end them: who owns the file or folder that
// refuses, which user the process runs as, and the command that helps.
package fserror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Exists reports whether a path exists, also as a link that leads nowhere. Its error means that nobody knows, e.g.
// because this process may not enter the folder.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Explain adds advice to the text of an error. It wraps err, or returns it if there is no advice or if the text has
// advice already.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	advice := Advice(err)
	if advice == "" || strings.Contains(err.Error(), advice) {
		return err
	}
	return &explained{err, advice}
}

type explained struct {
	error
	advice string
}

func (e *explained) Error() string { return e.error.Error() + "; " + e.advice }

func (e *explained) Unwrap() error { return e.error }

// Named replaces the text of an error, e.g. because the text of the operating system repeats a path. Explain still finds
// the cause.
func Named(err error, format string, args ...any) error {
	return &named{err, fmt.Sprintf(format, args...)}
}

type named struct {
	error
	text string
}

func (e *named) Error() string { return e.text }

func (e *named) Unwrap() error { return e.error }

// Advice says what an operator can do about an error, or "" for errors that are not from the file system or the
// process's limits.
func Advice(err error) string {
	if e, ok := errors.AsType[*explained](err); ok {
		return e.advice
	}
	errno, known := errors.AsType[syscall.Errno](err)
	if !known {
		return ""
	}
	at, hasPath := place(err)
	switch errno {
	case syscall.EMFILE:
		return "the process has too many open files: raise its limit, with LimitNOFILE= in the systemd unit or with ulimit -n"
	case syscall.ENFILE:
		return "all processes of this machine have too many open files: raise the limit with sysctl fs.file-max"
	}
	if !hasPath {
		return ""
	}
	if errors.Is(errno, fs.ErrPermission) {
		return at.refused()
	}
	disk := at.existing()
	switch errno {
	case syscall.EROFS:
		return disk + " is on a read-only file system: mount it writable, or name another folder; the kernel also makes a broken disk read-only and logs it (dmesg)"
	case syscall.ENOSPC:
		return "the disk of " + disk + " has no space or no inodes left: make space, and compare df and df -i"
	case syscall.EDQUOT:
		return "the disk quota for " + disk + " is used up: make space, or raise the quota"
	case syscall.EFBIG:
		return "the file is larger than its file system or the process's limit allows (ulimit -f)"
	case syscall.EIO:
		return "the disk of " + disk + " cannot be read or written: look at the log of the kernel (dmesg), and replace the disk"
	case syscall.ESTALE, syscall.ENOTCONN, syscall.ENODEV, syscall.ENXIO:
		return "the file system of " + disk + " is gone: mount it again"
	case syscall.ENOTDIR:
		return disk + " is not a folder: name another path, or move the file away"
	case syscall.ELOOP:
		return "the path has a circle of symbolic links: correct them"
	case syscall.ENAMETOOLONG:
		return "the file system allows 255 bytes per name: choose a shorter path"
	}
	return ""
}

// Short describes an error that an operator can end, in a message that clients may read, or returns "" for other errors.
func Short(err error) string {
	errno, known := errors.AsType[syscall.Errno](err)
	if !known {
		return ""
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE:
		return "the server has too many open files"
	case syscall.ENOSPC, syscall.EDQUOT:
		return "the disk is full"
	case syscall.EROFS:
		return "the disk is read-only"
	case syscall.EIO:
		return "the disk cannot be read or written"
	case syscall.ENOMEM:
		return "the server has no memory left"
	case syscall.EFBIG:
		return "a file of the server is too large"
	case syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.ESTALE, syscall.ENOTCONN, syscall.ENODEV, syscall.ENXIO:
		return "a file of the server cannot be used"
	}
	return ""
}

// path is the place where an operation failed.
type path struct {
	name string

	// changes means that the operation adds or removes the name, so that the folder above refused it.
	changes bool
	isMkdir bool
}

// place returns the place of an error. A name below an *os.Root is relative to an unknown folder, so it has none.
func place(err error) (path, bool) {
	op, name := "", ""
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		op, name = e.Op, e.Path
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		op, name = e.Op, e.New
	}
	if name == "" || strings.HasSuffix(op, "at") && op != "stat" && op != "lstat" && !filepath.IsAbs(name) {
		return path{}, false
	}
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	isMkdir := strings.HasPrefix(op, "mkdir")
	changes := isMkdir || strings.HasPrefix(op, "rename") || strings.HasPrefix(op, "link") || strings.HasPrefix(op, "unlink") || strings.HasPrefix(op, "remove")
	return path{name, changes, isMkdir}, true
}

// existing returns the deepest file or folder on the path that this process can see.
func (p path) existing() string {
	for at := p.name; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			return at
		}
	}
}

// refused explains "permission denied". A process sees a folder that it may not enter, so the deepest visible name on
// the path is the name that refuses.
func (p path) refused() string {
	at := p.existing()
	if at == p.name && p.changes {
		at = filepath.Dir(at)
	}
	info, err := os.Stat(at)
	if err != nil {
		return ""
	}
	me := runner()
	owner, known := ownerOf(info)
	if !known {
		return at + " does not allow it to " + me.name + ": change its permissions, or run the command as its owner"
	}
	mode := fmt.Sprintf("mode %04o", info.Mode().Perm())
	switch {
	case me.id == 0:
		return fmt.Sprintf("%s belongs to %s (%s), and even root is refused: look at the attributes (lsattr), the mount options, the security module (SELinux, AppArmor) and the mapping of users in a container", at, owner.name, mode)
	case owner.id == me.id:
		return fmt.Sprintf("%s belongs to %s (%s), as whom this process runs: run chmod u+rwX %s; if the mode allows it already, look at the security module (SELinux, AppArmor) and at the unit's sandbox", at, owner.name, mode, quote(at))
	}
	says := fmt.Sprintf("%s belongs to %s (%s), and this process runs as %s: run the command as its owner, e.g. %s", at, owner.name, mode, me.name, owner.sudo())
	switch {
	case owner.id == 0 && at == p.name:
		says += "; if it is meant for " + me.name + ", run sudo chown " + me.word() + " " + quote(at)
	case owner.id == 0 && p.isMkdir:
		says += "; or make the folder for " + me.name + ": sudo install -d -m 700 -o " + me.word() + " " + quote(p.name)
	}
	return says
}

// quote quotes a path for a shell, if it needs that.
func quote(path string) string {
	plain := func(r rune) bool {
		return r > ' ' && r < 0x7f && !strings.ContainsRune(`'"\$&|;<>()*?[]{}~#!`+"`", r)
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
