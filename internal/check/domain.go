package check

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/certificates"
	"holdfast/internal/fserror"
	"holdfast/internal/listen"
)

const (
	domainSetting = "server.domain"
	domainTimeout = 5 * time.Second
	reachable     = "the name must point to this machine, and the certificate authority must reach its port 443 or 80"
)

// obtained checks the certificate from ACME.
func (c *check) obtained(ctx context.Context) service.Finding {
	f := service.Finding{State: service.OK, What: domainSetting}
	var state certificates.State
	if c.Certificates != nil {
		state = c.Certificates.State()
	} else {
		var err error
		if state, err = certificates.Stored(ctx, c.Data, c.ACMEDirectory, c.Domain); err != nil {
			f.State, f.Says, f.Fix = service.Wrong, "the stored certificate cannot be used: "+service.Reason(err), cmp.Or(fserror.Advice(err), "look at the folder with ls -la, and start the server again")
			return f
		}
	}
	problem := strings.TrimSpace(state.Problem)
	switch {
	case state.Until.IsZero() && problem != "":
		f.State, f.Says, f.Fix = service.Wrong, c.Domain+" has no certificate; the last attempt failed: "+problem, reachable
	case state.Until.IsZero():
		f.Says = "the certificate for " + c.Domain + " will be obtained by the running server"
	case time.Now().After(state.Until):
		f.State, f.Says, f.Fix = service.Wrong, "the certificate for "+c.Domain+" expired on "+date(state.Until), "start the server, which renews it; "+reachable
		if problem != "" {
			f.Says += "; the last attempt to renew it failed: " + problem
		}
	case problem != "":
		f.State, f.Says, f.Fix = service.Warning, "the certificate for "+c.Domain+" is valid until "+date(state.Until)+", but: "+problem, reachable
	default:
		f.Says = "the certificate for " + c.Domain + " is valid until " + date(state.Until)
	}
	return f
}

// domain checks that the CA can reach this server.
func (c *check) domain(ctx context.Context) (findings []service.Finding) {
	if listen.PortOf(c.Listen) != "443" && listen.PortOf(c.HTTPListen) != "80" {
		findings = append(findings, service.Finding{
			State: service.Warning, What: domainSetting, Says: "the server listens neither on port 443 nor on port 80, to which the certificate authority connects",
			Fix: "set server.listen or server.http_listen, or forward one of these ports in a router or a load balancer that does not terminate TLS",
		})
	}
	ctx, cancel := context.WithTimeout(ctx, domainTimeout)
	defer cancel()
	names, err := net.DefaultResolver.LookupHost(ctx, c.Domain)
	if err != nil {
		return append(findings, service.Finding{
			State: service.Warning, What: domainSetting, Says: c.Domain + " has no address in this machine's DNS", Fix: "add an A or AAAA record that points to this machine",
		})
	}
	own, err := net.InterfaceAddrs()
	isOwn := func(address string) bool {
		ip := net.ParseIP(address)
		return slices.ContainsFunc(own, func(a net.Addr) bool {
			network, ok := a.(*net.IPNet)
			return ok && network.IP.Equal(ip)
		})
	}
	if err == nil && !slices.ContainsFunc(names, isOwn) {
		findings = append(findings, service.Finding{
			State: service.Warning, What: domainSetting, Says: c.Domain + " points to " + strings.Join(names, ", ") + ", which are not this machine's addresses",
			Fix: "correct the DNS record, unless a router forwards ports 443 and 80 from there to this machine",
		})
	}
	return findings
}
