package testdb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort is host:port that nobody listens on, for servers that cannot choose
// one and say which, or that come back to theirs. It is none of those that
// systems give to whoever asks for any, from 32768 on: between the look and the
// start, one of those is somebody's other end every few hundred runs.
func FreePort() (string, error) {
	var all error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		all = errors.Join(all, err)
	}
	return "", all
}
