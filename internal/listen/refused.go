package listen

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"holdfast/internal/app/service"
)

// Refused explains why the server cannot listen on an address.
func Refused(l service.Listener, err error) service.Finding {
	f := service.Finding{State: service.Wrong, What: l.Setting}
	var dns *net.DNSError
	var call *os.SyscallError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.Says = l.Address + " is in use by another program"
		f.Fix = "stop it, or choose another port"
		if section, _, _ := strings.Cut(l.Setting, "."); section != "server" {
			f.Fix += ", or set " + section + ".enabled = false"
		}
		f.Fix += "; to find it: ss -ltnp 'sport = :" + PortOf(l.Address) + "'"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		f.Says = l.Address + ": no permission to listen on this port"
		f.Fix = "choose a port from 1024 on, or give the service the capability CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.Says = l.Address + " is not an address of this machine"
		f.Fix = "choose one that this machine has (ip address), or :" + PortOf(l.Address) + " for all of them"
	case errors.As(err, &dns):
		f.Says = l.Address + ": the name " + dns.Name + " has no address"
		f.Fix = "choose an address of this machine, or :" + PortOf(l.Address) + " for all of them"
	case errors.As(err, &call):
		f.Says, f.Fix = l.Address+": "+call.Err.Error(), "choose another address"
	default:
		f.Says, f.Fix = l.Address+": "+err.Error(), "choose another address"
	}
	return f
}
