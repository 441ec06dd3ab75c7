//go:build !unix

package fserror

import "io/fs"

func ownerOf(fs.FileInfo) (account, bool) { return account{}, false }
