//go:build linux || darwin || freebsd

package filedriver

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"holdfast/internal/buckets/blobs"
)

// isFull reports whether a node is full. EFBIG means that a file reached the limit of the file system or process.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

func isNoLink(err error) bool {
	return errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EXDEV)
}

func freeSpace(folder *os.File) (blobs.Space, error) {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(int(folder.Fd()), &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		block := int64(st.Bsize) //nolint:unconvert // int32 on some systems
		return blobs.Space{Total: int64(st.Blocks) * block, Free: int64(st.Bavail) * block, ReadOnly: !isWritable(folder)}, err
	}
}

// isWritable reports whether a folder can be written. It returns false for a read-only mount, even for root.
func isWritable(folder *os.File) bool {
	err := unix.Faccessat(int(folder.Fd()), ".", unix.W_OK, unix.AT_EACCESS)
	return !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM)
}
