//go:build !(linux || darwin || freebsd)

package app

import "errors"

// diskSpace is not supported on this system, which has no metrics of the disk.
func diskSpace(string) (free, size float64, err error) {
	return 0, 0, errors.ErrUnsupported
}
