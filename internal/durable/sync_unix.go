//go:build unix

package durable

import "os"

// syncNames makes the names in an open folder durable.
func syncNames(folder *os.File) error { return folder.Sync() }
