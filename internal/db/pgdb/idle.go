package pgdb

import (
	"net"
	"syscall"
)

// hasPendingData reports whether an idle connection has received something: EOF, or
// the shutdown notice of the server. A restarted server leaves a pool full of such
// connections, each of which would fail a request. The check is one system call, where
// a ping is a round trip. It does not detect a server that disappeared silently.
func hasPendingData(conn net.Conn) bool {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn() // TLS may send data of its own: then a ping decides
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	// Not Read, which would block behind a reader that the driver leaves after a slow
	// write.
	var quiet bool
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
	})
	return err != nil || !quiet
}
