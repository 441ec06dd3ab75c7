package app

import "net"

// addressesOf returns the URLs of a listener that accepts connections to all addresses of the
// machine: one for each address that other machines can reach. Others have the one of their setting.
func addressesOf(listen, scheme string) (all []string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !isUnspecified(host) {
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

// isUnspecified reports whether a listener with this host accepts connections to all
// addresses of the machine.
func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// withHostName replaces the host of a listen address by name if it stands for all
// addresses, to which nobody can connect.
func withHostName(listen, name string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !isUnspecified(host) {
		return listen
	}
	return net.JoinHostPort(name, port)
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
