package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/listen"
	"holdfast/internal/secrets"
)

// FixOtherSettings is the advice for a command whose settings differ from those of the running server.
const FixOtherSettings = "give the command the configuration file and variables of the server (holdfast status names its file), or reload or restart the server"

// listeners tries to listen on each address, or finds out who does.
func (c *check) listeners(ctx context.Context) (findings []service.Finding) {
	own := c.instance()
	// All stay open until the end, as in a server, because two may be equal.
	var open []net.Listener
	by := map[string]string{} // setting by bound address
	var differ []string       // settings with other values in the running server
	for _, l := range c.Listeners {
		if l.Address == "" {
			continue
		}
		ln, err := net.Listen("tcp", l.Address)
		if err == nil {
			open = append(open, ln)
			by[ln.Addr().String()] = l.Setting
			findings = append(findings, service.Finding{State: service.OK, What: l.Setting, Says: l.Address + " is free"})
			continue
		}
		f, busy := listen.Refused(l, err), errors.Is(err, syscall.EADDRINUSE)
		if busy {
			if other := sharedWith(ctx, l.Address, by); other != "" {
				findings = append(findings, service.Finding{
					State: service.Wrong, What: l.Setting, Says: l.Address + " is also the address of " + other, Fix: "give each listener its own port",
				})
				continue
			}
		}
		// A running service may have a permission that this user does not have.
		if busy || errors.Is(err, syscall.EACCES) {
			if used, id := inUse(ctx, l, own, c.TLSCert != "" || c.Domain != ""); busy || used.State == service.OK {
				f = used
				if f.State == service.OK {
					differ = id.Differ
				}
			}
		}
		c.running = c.running || f.State == service.OK
		findings = append(findings, f)
	}
	for _, ln := range open {
		_ = ln.Close()
	}
	if len(differ) > 0 {
		findings = append(findings, service.Finding{
			State: service.Warning, What: "running server", Says: "it has other values than this check for " + service.FirstNames(differ),
			Fix: FixOtherSettings,
		})
	}
	return append(findings, c.holder()...)
}

// holder warns about a running server that uses the SQLite files but none of the addresses. It may be this server,
// before a restart that changes them.
func (c *check) holder() []service.Finding {
	if c.held == nil || c.running {
		return nil
	}
	return []service.Finding{{
		State: service.Warning, What: "running server", Says: c.held.Error() + " that listens on none of these addresses",
		Fix: "stop it before you start a server with this configuration; for a second server choose another folder with --data",
	}}
}

// Holder returns an error that names the server which uses a SQLite file; nil: none does, or it is on a database server.
func Holder(d *engine.Database) error {
	if !d.Embedded() {
		return nil
	}
	if held, ok := errors.AsType[*sqlitedb.InUseError](sqlitedb.InUse(d.Target.Path)); ok {
		return held
	}
	return nil
}

// instance returns this server's identity, to ask who listens on an address.
func (c *check) instance() *listen.Instance {
	masters := c.OldMasters
	if c.Master != "" {
		masters = append([]string{c.Master}, masters...)
	} else if values, err := secrets.Read(filepath.Join(c.Data, secrets.File)); err == nil && values[secrets.Master] != "" {
		masters = append([]string{values[secrets.Master]}, masters...)
	}
	i, err := listen.NewInstance(masters, c.Data)
	if err != nil {
		return &listen.Instance{}
	}
	if c.Settings != nil {
		i.Settings = func() map[string]string { return c.Settings }
	}
	return i
}

// sharedWith returns the setting that already uses an address.
func sharedWith(ctx context.Context, address string, by map[string]string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	for bound, setting := range by {
		otherHost, otherPort, err := net.SplitHostPort(bound)
		if err != nil || !listen.SamePort(port, otherPort) {
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil || listen.IsUnspecified(host) || listen.IsUnspecified(otherHost) {
			return setting
		}
		for _, text := range ips {
			if ip := net.ParseIP(text); ip.IsUnspecified() || ip.Equal(net.ParseIP(otherHost)) {
				return setting
			}
		}
	}
	return ""
}

// inUse explains an address in use, and returns the identity of the server that uses it, if that is known.
func inUse(ctx context.Context, l service.Listener, own *listen.Instance, tls bool) (service.Finding, listen.Identity) {
	f := listen.Refused(l, syscall.EADDRINUSE)
	id, err := own.Ask(ctx, l.Address, tls && l.Name != service.Admin)
	switch {
	case errors.Is(err, listen.ErrOtherSecrets):
		f.Says = l.Address + " is in use by a Holdfast server with different secrets (probably another data folder), or by a proxy in front of it"
		f.Fix = "to check that server, name its data folder with --data; otherwise " + f.Fix
	case err != nil:
	case id.Data != own.Data:
		f.Says = fmt.Sprintf("%s is in use by another Holdfast server with the same master secret and the data folder %s", l.Address, id.Data)
		f.Fix = "stop it, or choose another port"
	case id.Listener != l.Name:
		f.State, f.Fix = service.OK, ""
		f.Says = fmt.Sprintf("%s is in use by this server's %s listener, which is running (its secret and data folder match)", l.Address, id.Listener)
	default:
		f.State, f.Fix = service.OK, ""
		f.Says = l.Address + " is in use by this server itself, which is running (its secret and data folder match)"
	}
	return f, id
}
