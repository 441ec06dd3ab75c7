//go:build !(linux || darwin || freebsd)

package durable

import "errors"

// Space is unsupported on this system.
func Space(string) (free, size float64, err error) { return 0, 0, errors.ErrUnsupported }
