//go:build unix

package sqlitedb

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockExclusive(f *os.File) error { return flock(f, unix.LOCK_EX) }

func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

// flock locks the file. Unlike fcntl, it does not lock for the whole process.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		case err != nil:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		default:
			return nil
		}
	}
}

// access checks the rights without opening the file; see create.
func access(path string) error {
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}
