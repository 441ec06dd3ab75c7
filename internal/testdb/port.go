package testdb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

var ports sync.Map // tried by FreePort

// FreePort returns a host:port without a listener, for servers that cannot report a port they chose, or that restart
// on it. Ports are below 32768, where ephemeral ports begin: every few hundred runs, an ephemeral port is taken
// between check and start. FreePort never returns a port twice, because its owner may not listen yet.
func FreePort() (string, error) {
	var all error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if _, given := ports.LoadOrStore(address, true); given {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		all = errors.Join(all, err)
	}
	return "", all
}

// FreeAddress is FreePort for a test. Until somebody listens there, connections are refused.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
