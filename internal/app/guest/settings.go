package guest

import (
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/guest/handoffs"
)

// rules reports combinations of settings that lose or reveal guests' data, or take no effect.
func (s *Guest) rules(in service.Settings) (all []conf.Rule) {
	c := &s.cfg
	all = []conf.Rule{
		{
			Settings: []string{"guest.hot", "guest.processes"}, When: "guest.hot in memory with several processes",
			Says: conf.Says(c.Hot == hotMemory && c.Processes > 1, "is memory, but guest.processes is more than 1: each process knows only its own sessions, and guests lose theirs whenever another process answers"),
			Fix:  "set a Redis URL, or guest.processes to 1",
		},
		{
			Settings: []string{"guest.enabled", "server.public_url"}, When: "guest cookies over plain HTTP",
			Says: conf.Says(strings.HasPrefix(strings.ToLower(in.PublicURL), "http://") && in.Public != "", "is true, and server.public_url begins with http://: session cookies are sent without encryption, and not as Secure"),
			Fix:  "use HTTPS, and write https:// in server.public_url",
		},
		{
			Settings: []string{"guest.handoff_ip", "server.trusted_proxies", "server.public_url"}, When: "guest.handoff_ip behind a proxy that is not trusted",
			Says: conf.Says(in.IsProxied && c.HandoffIP != handoffs.MismatchIgnore, "compares the address of the proxy, which all guests share: server.public_url leads to a proxy, and server.trusted_proxies is empty"),
			Fix:  "add the proxy to server.trusted_proxies",
		},
	}
	for _, setting := range []string{"hot_prefix", "hot_timeout"} {
		all = append(all, conf.Rule{
			Settings: []string{"guest." + setting, "guest.hot"}, When: "guest." + setting + " without Redis",
			Says: conf.Says(c.Hot == hotMemory && in.Origin(setting) != "default", "has no effect while guest.hot is memory"), Fix: "set guest.hot to a Redis URL, or unset it",
		})
	}
	for _, rate := range []string{"session", "bootstrap", "search", "detail", "wishlist", "mint", "telemetry"} {
		all = append(all, conf.Rule{
			Settings: []string{"guest.rates." + rate, "guest.rate_limits"}, When: "guest.rates." + rate + " without guest.rate_limits",
			Says: conf.Says(!c.RateLimits && in.Origin("rates."+rate) != "default", "has no effect without rate_limits"), Fix: "set guest.rate_limits, or unset it",
		})
	}
	return all
}
