package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"holdfast/internal/app/service"
)

// listeners reports whether the server can listen on its addresses, or already does.
func (c *check) listeners(ctx context.Context) (found []service.Finding) {
	instance := c.instance()
	// All stay open until the end, as in a server, because two may have the same address.
	var open []net.Listener
	by := map[string]string{} // the setting of each bound address
	for _, l := range c.cfg.listeners() {
		if l.Address == "" {
			continue
		}
		ln, err := net.Listen("tcp", l.Address)
		if err == nil {
			open = append(open, ln)
			by[ln.Addr().String()] = l.Setting
			found = append(found, service.Finding{State: service.OK, What: l.Setting, Says: l.Address + " is free"})
			continue
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			found = append(found, cannotListen(l, err))
			continue
		}
		if other := sharedWith(ctx, l.Address, by); other != "" {
			found = append(found, service.Finding{
				State: service.Wrong, What: l.Setting, Says: l.Address + " is the address of " + other + " too", Fix: "give each listener a port of its own",
			})
			continue
		}
		f := inUse(ctx, l, instance, c.cfg.Server.TLSCert != "")
		c.running = c.running || f.State == service.OK
		found = append(found, f)
	}
	for _, ln := range open {
		_ = ln.Close()
	}
	return append(found, c.holder()...)
}

// holder warns about a running server that uses the SQLite files and listens on none
// of the addresses. It may be this server, before a restart that changes all of them.
func (c *check) holder() []service.Finding {
	if c.held == nil || c.running {
		return nil
	}
	return []service.Finding{{
		State: service.Warning, What: "running server", Says: c.held.Error() + " that listens on none of these addresses",
		Fix: "stop it before you start one with this configuration; for a second server choose another folder with --data",
	}}
}

// instance returns the identity that the server has while it runs. It has no keys if
// the secrets are not known.
func (c *check) instance() *instance {
	srv := &c.cfg.Server
	var masters []string
	if srv.MasterSecret != "" {
		masters = append(masters, srv.MasterSecret.Reveal())
	} else if values, err := readSecrets(filepath.Join(c.data, SecretsFile)); err == nil && values[masterSetting] != "" {
		masters = append(masters, values[masterSetting])
	}
	for _, old := range srv.OldMasterSecrets {
		masters = append(masters, old.Reveal())
	}
	i, err := newInstance(masters, c.data)
	if err != nil {
		return &instance{}
	}
	return i
}

// sharedWith returns the setting of another listener of this configuration with the
// same address, or "".
func sharedWith(ctx context.Context, address string, by map[string]string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	for bound, setting := range by {
		otherHost, otherPort, err := net.SplitHostPort(bound)
		if err != nil || !samePort(port, otherPort) {
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil || isUnspecified(host) || isUnspecified(otherHost) {
			return setting
		}
		for _, one := range ips {
			if ip := net.ParseIP(one); ip.IsUnspecified() || ip.Equal(net.ParseIP(otherHost)) {
				return setting
			}
		}
	}
	return ""
}

func samePort(a, b string) bool {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	return errA == nil && errB == nil && m == n
}

// inUse describes the owner of an address that is in use.
func inUse(ctx context.Context, l service.Listener, own *instance, tls bool) service.Finding {
	f := cannotListen(l, syscall.EADDRINUSE)
	id, err := own.ask(ctx, l.Address, tls && l.Name != service.Admin)
	switch {
	case errors.Is(err, errOtherSecrets):
		f.Says = l.Address + " is in use by a Holdfast server with other secrets (probably another data folder), or by a proxy in front of one"
	case err != nil:
		return f
	case id.Data != own.data:
		f.Says = fmt.Sprintf("%s is in use by another Holdfast server with the same master secret and the data folder %s", l.Address, id.Data)
		f.Fix = "stop it, or choose another port"
	case id.Listener != l.Name:
		f.State, f.Fix = service.OK, ""
		f.Says = fmt.Sprintf("%s is in use by the %s listener of this server, which is running (it has proved its secret and data folder)", l.Address, id.Listener)
	default:
		f.State, f.Fix = service.OK, ""
		f.Says = l.Address + " is in use by this server itself, which is running (it has proved its secret and data folder)"
	}
	return f
}

// cannotListen describes why the system does not let the server listen on an address.
func cannotListen(l service.Listener, err error) service.Finding {
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
		f.Fix += "; to find it: ss -ltnp 'sport = :" + portOf(l.Address) + "'"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		f.Says = l.Address + ": no permission to listen on this port"
		f.Fix = "choose a port from 1024 on, or give the service the capability CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.Says = l.Address + " is not an address of this machine"
		f.Fix = "choose one that this machine has (ip address), or :" + portOf(l.Address) + " for all of them"
	case errors.As(err, &dns):
		f.Says = l.Address + ": the name " + dns.Name + " has no address"
		f.Fix = "choose an address of this machine, or :" + portOf(l.Address) + " for all of them"
	case errors.As(err, &call):
		f.Says, f.Fix = l.Address+": "+call.Err.Error(), "choose another address"
	default:
		f.Says, f.Fix = l.Address+": "+err.Error(), "choose another address"
	}
	return f
}
