package filedriver

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writeBack starts writing the window that ends at end to disk, and waits for the previous window. It returns disk
// errors, because Linux reports each error only once, so the final sync would not return it. It ignores file systems
// that lack the system call.
func writeBack(f *os.File, end, window int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var start, wait error
	err = conn.Control(func(fd uintptr) {
		start = unix.SyncFileRange(int(fd), end-window, window, unix.SYNC_FILE_RANGE_WRITE)
		if end > window {
			const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
			wait = unix.SyncFileRange(int(fd), end-2*window, window, all)
		}
	})
	for _, e := range []error{start, wait} {
		if errors.Is(e, unix.EIO) || isFull(e) {
			err = errors.Join(err, e)
		}
	}
	return err
}
