package systemd

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are listeners that systemd has opened for a .socket unit. Connections wait in them while the server restarts.
type Sockets []net.Listener

// passed returns the sockets that the process has got by sd_listen_fds(3).
func passed() (Sockets, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("cannot use the sockets that systemd passes: %w", err)
	}
	if slices.Contains(all, nil) {
		return nil, errors.New("systemd passes a socket that does not accept connections: only ListenStream is supported")
	}
	return all, nil
}

// Take removes the socket of an address and returns it, or nil.
func (s *Sockets) Take(address string) net.Listener {
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil // net.Listen has the same error
	}
	i := slices.IndexFunc(*s, func(l net.Listener) bool {
		has, ok := l.Addr().(*net.TCPAddr)
		return ok && has.Port == want.Port && sameHost(has.IP, want.IP)
	})
	if i < 0 {
		return nil
	}
	l := (*s)[i]
	*s = slices.Delete(*s, i, i+1)
	return l
}

// sameHost reports whether two addresses accept the same connections. Each unspecified address stands for all.
func sameHost(a, b net.IP) bool {
	unspecified := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return a.Equal(b) || unspecified(a) && unspecified(b)
}

// Close closes the sockets that nobody has taken.
func (s *Sockets) Close() (err error) {
	for _, l := range *s {
		err = errors.Join(err, l.Close())
	}
	*s = nil
	return err
}
