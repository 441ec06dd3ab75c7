package guest

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// sharedEvery is how often, at most, a process warns about a shared address.
const sharedEvery = time.Hour

// sharedAddress warns when requests from a private address exceed the limit that all its sessions share: the address is
// probably a proxy or the site's server, which does not report its visitors' addresses.
type sharedAddress struct {
	log   *slog.Logger
	clock clock.Clock

	mu     sync.Mutex
	warned time.Time // zero: not yet
}

// limited is guest.Options.AddressLimited.
func (s *sharedAddress) limited(class guest.Class, address string) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !isPrivate(ip.Unmap()) || !s.isDue() {
		return
	}
	s.log.Warn("guests refused: too many requests from one private address", "service", Name, "client_address", address, "limit", string(class),
		"hint", "if it is a proxy or your site's server, add it to server.trusted_proxies, set guest.enabled = true, "+
			"and let it send its client's address in X-Forwarded-For")
}

// isDue reports whether sharedEvery has passed since it last returned true.
func (s *sharedAddress) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if !s.warned.IsZero() && now.Sub(s.warned) < sharedEvery {
		return false
	}
	s.warned = now
	return true
}

// carrierNAT is the shared address space of RFC 6598, which load balancers and overlay networks use, too.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// isPrivate reports whether visitors from the internet cannot have the address.
func isPrivate(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || carrierNAT.Contains(ip)
}
