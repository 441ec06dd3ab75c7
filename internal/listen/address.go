package listen

import (
	"net"
	"strconv"
)

// AddressesOf returns the URLs of a listener that accepts connections to all addresses of the
// machine: one for each address that other machines can reach. Others have the one of their setting.
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
		if !ok || !network.IP.IsGlobalUnicast() { // loopback and link-local addresses are of no use elsewhere
			continue
		}
		all = append(all, scheme+"://"+net.JoinHostPort(network.IP.String(), port))
	}
	return all
}

// IsUnspecified reports whether a listener with this host accepts connections to all
// addresses of the machine.
func IsUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// WithHostName replaces the host of a listen address by name if it stands for all
// addresses, to which nobody can connect.
func WithHostName(listen, name string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !IsUnspecified(host) {
		return listen
	}
	return net.JoinHostPort(name, port)
}

// PortOf returns the port of an address, or "" if it has none.
func PortOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// SamePort reports whether two ports are the same number.
func SamePort(a, b string) bool {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	return errA == nil && errB == nil && m == n
}

// IsLoopback reports whether only this machine reaches an address.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
