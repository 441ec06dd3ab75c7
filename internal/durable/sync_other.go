//go:build !unix

package durable

import "os"

// These systems do not sync folders.
func syncNames(*os.File) error { return nil }
