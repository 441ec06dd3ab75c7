package pgdb

import (
	"net"
	"syscall"
)

// hasPendingData reports whether something has come in on a connection that waits for
// nothing: its end, or the server's word that it ends. A server that restarts
// leaves a pool full of such, and each would cost a request. It is one system
// call, where a ping is a round trip; a server that is gone without a word is
// not found by it.
func hasPendingData(conn net.Conn) bool {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn() // under TLS, which may speak of itself: a ping decides
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	// Not Read, which waits for its turn: after a slow write the driver may
	// still have a reader of its own waiting there.
	var quiet bool
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
	})
	return err != nil || !quiet
}
