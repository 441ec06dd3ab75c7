package web

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much of an answer waits in the kernel to be sent. Without a
// limit the kernel takes megabytes, and takes more only when a third of them has
// been sent: a client that reads steadily looks as if it did not read at all.
const unsentBytes = 32 << 10

// limitUnsent sets that limit. Without it the connection works as well.
func limitUnsent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
