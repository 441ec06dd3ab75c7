package systemd

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are a .socket unit's listeners, opened by systemd.
type Sockets []net.Listener

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

func (s *Sockets) Take(address string) net.Listener {
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil // net.Listen returns the same error
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

// sameHost treats all unspecified addresses as equal.
func sameHost(a, b net.IP) bool {
	unspecified := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return a.Equal(b) || unspecified(a) && unspecified(b)
}

func (s *Sockets) Close() (err error) {
	for _, l := range *s {
		err = errors.Join(err, l.Close())
	}
	*s = nil
	return err
}
