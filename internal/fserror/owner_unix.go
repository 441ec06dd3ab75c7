//go:build unix

package fserror

import (
	"io/fs"
	"syscall"
)

func ownerOf(info fs.FileInfo) (account, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, false
	}
	return accountOf(int(stat.Uid)), true
}
