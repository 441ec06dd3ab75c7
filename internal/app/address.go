package app

import "net"

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
