package testdb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

var ports sync.Map // addresses that FreePort has tried

// FreePort returns a host:port without a listener, for servers that cannot choose a port
// and report it, or that restart on the same one. The port is below 32768, where the
// ephemeral ports begin: one of those is taken between the check and the start of the
// server every few hundred runs. No port is returned twice: its first owner may not listen yet.
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
