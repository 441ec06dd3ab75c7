//go:build linux || darwin || freebsd

package app

import "syscall"

// diskSpace returns the free space for the server and the size of a folder's disk, in
// bytes.
func diskSpace(dir string) (free, size float64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := float64(s.Bsize)
	return float64(s.Bavail) * block, float64(s.Blocks) * block, nil
}
