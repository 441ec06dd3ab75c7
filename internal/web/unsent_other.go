//go:build !linux

package web

import "net"

func limitUnsent(*net.TCPConn) {}
