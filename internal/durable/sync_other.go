//go:build !unix

package durable

import "os"

// syncNames does nothing: these systems do not sync folders.
func syncNames(*os.File) error { return nil }
