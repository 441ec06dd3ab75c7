package web

import (
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged returns how many sent bytes the peer has not acknowledged yet (SIOCOUTQ). ok is false if the kernel
// cannot say.
func unacknowledged(c *net.TCPConn) (n int64, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var queued int
	var failed error
	err = raw.Control(func(fd uintptr) { queued, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return int64(queued), err == nil && failed == nil
}
