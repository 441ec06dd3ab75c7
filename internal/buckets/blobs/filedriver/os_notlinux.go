//go:build !linux

package filedriver

import "os"

// writeBack does nothing: other systems decide themselves when to store what was written.
func writeBack(*os.File, int64, int64) error { return nil }
