//go:build !(linux || darwin || freebsd)

package app

import "errors"

// diskSpace is not known here: the metrics of the disk are left out.
func diskSpace(string) (free, size float64, err error) {
	return 0, 0, errors.ErrUnsupported
}
