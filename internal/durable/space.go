//go:build linux || darwin || freebsd

package durable

import "syscall"

// Space returns a disk's free space for this process, and its size, in bytes.
func Space(folder string) (free, size float64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, 0, err
	}
	block := float64(s.Bsize)
	return float64(s.Bavail) * block, float64(s.Blocks) * block, nil
}
