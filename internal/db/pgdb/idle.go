package pgdb

import (
	"net"
	"syscall"
)

// hasPendingData reports whether an idle connection received EOF or a shutdown notice. After a server restart, the
// pool is full of such connections, and each would fail a request. The check is a system call, not a ping's round
// trip, but misses a server that vanished silently.
func hasPendingData(conn net.Conn) bool {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn() // TLS may send data of its own; a ping decides
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	// Peek with a system call: Read would block behind a reader that the driver leaves running after a slow write.
	var quiet bool
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
	})
	return err != nil || !quiet
}
