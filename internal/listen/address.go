package listen

import (
	"net"
	"strconv"
)

// AddressesOf returns a listener's URLs: for an unspecified host, all addresses that other machines can reach.
func AddressesOf(listen, scheme string) (all []string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !IsUnspecified(host) {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range own {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() { // loopback and link-local addresses are useless elsewhere
			continue
		}
		all = append(all, scheme+"://"+net.JoinHostPort(network.IP.String(), port))
	}
	return all
}

// IsUnspecified reports whether a host stands for all addresses.
func IsUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// WithHostName replaces an unspecified host, to which nobody can connect, with name.
func WithHostName(listen, name string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !IsUnspecified(host) {
		return listen
	}
	return net.JoinHostPort(name, port)
}

// PortOf returns an address's port, or "".
func PortOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// SamePort compares ports as numbers.
func SamePort(a, b string) bool {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	return errA == nil && errB == nil && m == n
}

// IsLoopback reports whether only this machine can reach an address.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
