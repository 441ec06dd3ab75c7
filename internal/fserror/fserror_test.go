package fserror_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/fserror"
)

// known lists the errors that an operator can end, with words of the advice and of the short message for clients.
var known = map[syscall.Errno][2]string{
	syscall.EACCES:       {"", "a file of the server cannot be used"}, // the advice depends on the user
	syscall.EPERM:        {"", "a file of the server cannot be used"},
	syscall.EROFS:        {"is on a read-only file system: mount it writable", "the disk is read-only"},
	syscall.ENOSPC:       {"has no space or no inodes left: make space", "the disk is full"},
	syscall.EDQUOT:       {"is used up: make space, or raise the quota", "the disk is full"},
	syscall.EFBIG:        {"is larger than", "a file of the server is too large"},
	syscall.EIO:          {"cannot be read or written: look at the log of the kernel", "the disk cannot be read or written"},
	syscall.EMFILE:       {"raise its limit, with LimitNOFILE=", "the server has too many open files"},
	syscall.ENFILE:       {"raise the limit with sysctl fs.file-max", "the server has too many open files"},
	syscall.ESTALE:       {"is gone: mount it again", "a file of the server cannot be used"},
	syscall.ENOTCONN:     {"is gone: mount it again", "a file of the server cannot be used"},
	syscall.ENODEV:       {"is gone: mount it again", "a file of the server cannot be used"},
	syscall.ENXIO:        {"is gone: mount it again", "a file of the server cannot be used"},
	syscall.ENOTDIR:      {"is not a folder: name another path", "a file of the server cannot be used"},
	syscall.ELOOP:        {"circle of symbolic links", "a file of the server cannot be used"},
	syscall.ENAMETOOLONG: {"choose a shorter path", "a file of the server cannot be used"},
}

// TestKnownErrors checks each error's advice and short message, in the ways in which packages wrap it. Nothing repeats the
// advice, and the cause stays.
func TestKnownErrors(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "missing", "file")
	for errno, want := range known {
		for _, err := range []error{
			&fs.PathError{Op: "open", Path: name, Err: errno},
			&os.LinkError{Op: "rename", Old: "a", New: name, Err: errno},
			fmt.Errorf("read: %w", &fs.PathError{Op: "stat", Path: name, Err: errno}),
			errors.Join(errors.New("another"), &fs.PathError{Op: "openat", Path: name, Err: errno}),
		} {
			said := fserror.Explain(err)
			if !strings.Contains(said.Error(), want[0]) || len(said.Error()) <= len(err.Error())+3 || !errors.Is(said, errno) {
				t.Errorf("%v: %v, want %q", err, said, want[0])
			}
			if again := fserror.Explain(fmt.Errorf("start: %w", said)); again.Error() != "start: "+said.Error() {
				t.Errorf("%v: explained twice: %v", err, again)
			}
			if got := fserror.Short(err); got != want[1] {
				t.Errorf("%v: %q, want %q", err, got, want[1])
			}
		}
	}
	if said := fserror.Explain(&net.OpError{Op: "accept", Err: syscall.EMFILE}).Error(); !strings.Contains(said, "LimitNOFILE=") {
		t.Errorf("a listener: %s", said)
	}
	for _, err := range []error{errors.New("other"), &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}} {
		if said := fserror.Explain(err); said.Error() != err.Error() {
			t.Errorf("%v: explained as %v", err, said)
		}
	}
	if fserror.Explain(nil) != nil {
		t.Error("nil is explained")
	}
}

func TestExists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, link: true, dir + "/missing": false} {
		if got, err := fserror.Exists(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if got, err := fserror.Exists(os.Args[0] + "/below a file"); got || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v, %v", got, err)
	}
}
