//go:build !(linux || darwin || freebsd)

package filedriver

import (
	"os"

	"holdfast/internal/buckets/blobs"
)

func isFull(error) bool { return false }

func isNoLink(err error) bool { return err != nil }

func freeSpace(*os.File) (blobs.Space, error) { return blobs.Unlimited, nil }

func isWritable(*os.File) bool { return true }
