//go:build linux || darwin || freebsd

package engine

import (
	"path/filepath"
	"syscall"
)

// Disk returns the free space for the server and the size of the disk of a SQLite file, in
// bytes.
func (d *Database) Disk() (free, size float64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(d.Target.Path), &s); err != nil {
		return 0, 0, err
	}
	block := float64(s.Bsize)
	return float64(s.Bavail) * block, float64(s.Blocks) * block, nil
}
