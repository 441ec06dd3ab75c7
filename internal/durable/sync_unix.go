//go:build unix

package durable

import "os"

func syncNames(folder *os.File) error { return folder.Sync() }
