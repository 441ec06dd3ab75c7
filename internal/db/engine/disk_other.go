//go:build !(linux || darwin || freebsd)

package engine

import "errors"

// Disk is not supported on this system, which has no metrics of the disk.
func (*Database) Disk() (free, size float64, err error) {
	return 0, 0, errors.ErrUnsupported
}
