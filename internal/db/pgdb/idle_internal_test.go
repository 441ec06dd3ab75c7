package pgdb

import (
	"net"
	"testing"
	"time"
)

func TestHasPendingData(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (near, far net.Conn) {
		t.Helper()
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if far, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		return near, far
	}
	hears := func(conn net.Conn) bool {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if hasPendingData(conn) {
				return true
			}
		}
		return false
	}

	quiet, _ := pair()
	// A reader blocks, like the driver's after a slow write.
	go func() { _, _ = quiet.Read(make([]byte, 1)) }()
	if hasPendingData(quiet) {
		t.Error("pending data on a quiet connection")
	}
	told, far := pair()
	if _, err := far.Write([]byte("E")); err != nil || !hears(told) {
		t.Errorf("received data was not detected: %v", err)
	}
	left, far := pair()
	if err := far.Close(); err != nil || !hears(left) {
		t.Errorf("EOF was not detected: %v", err)
	}
	left.Close()
	if !hasPendingData(left) {
		t.Error("a closed connection was not detected")
	}
}
