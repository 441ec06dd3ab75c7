package handoffs

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/conf"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

// Config is the part of [guest] about handoffs. The tag doc documents a field.
type Config struct {
	HandoffSecret     string   `toml:"handoff_secret" secret:"true" doc:"Encrypts handoff keys in the database, signs service tokens, and keys the hashes of addresses and browsers. At least 32 bytes, the same in all processes that share a database. Unset: generated and kept in the secrets file."`
	OldHandoffSecrets []string `toml:"old_handoff_secrets" secret:"true" doc:"Former handoff secrets, whose keys and hashes are still valid."`

	HandoffLife        time.Duration           `toml:"handoff_life" doc:"How long a guest may take to reach the booking site, at most 30m."`
	HandoffURL         string                  `toml:"handoff_url" doc:"Booking site URL with the placeholders {tenantId}, {propertyId} (or its synonym {itemId}) and {token}. Empty: guests can be sent only to tenants in handoff_tenants with their own URL."`
	HandoffFingerprint Mismatch                `toml:"handoff_fingerprint" doc:"Action if a handoff arrives from a different browser: refuse, mark (as suspect) or ignore. Applies only if the booking site reports the browser."`
	HandoffIP          Mismatch                `toml:"handoff_ip" doc:"Action if a handoff arrives from a different IP address or IPv6 /64 network: refuse, mark or ignore. Phones change their address."`
	HandoffAlgorithm   Algorithm               `toml:"handoff_algorithm" doc:"Token signature: hmac, with a key shared by all tenants, or ed25519, with a key per tenant whose public key is published. With ed25519, a booking site can verify tokens offline but not create them."`
	HandoffIssuer      string                  `toml:"handoff_issuer" doc:"Issuer (iss) in Ed25519 tokens, which sites that verify offline expect."`
	HandoffTenants     map[string]TenantConfig `toml:"handoff_tenants" doc:"Overrides per tenant, by UUID."`
}

// TenantConfig overrides settings for a tenant; empty settings inherit.
type TenantConfig struct {
	URL         string   `toml:"url" doc:"Overrides handoff_url."`
	Fingerprint Mismatch `toml:"fingerprint" doc:"Overrides handoff_fingerprint."`
	IP          Mismatch `toml:"ip" doc:"Overrides handoff_ip."`

	Algorithm Algorithm `toml:"algorithm" doc:"Overrides handoff_algorithm."`
}

// DefaultConfig returns the values of a new configuration.
func DefaultConfig() Config {
	return Config{HandoffLife: 10 * time.Minute, HandoffFingerprint: MismatchRefuse, HandoffIP: MismatchMark, HandoffAlgorithm: HMAC, HandoffIssuer: "holdfast"}
}

// Check returns all invalid settings.
func (c *Config) Check() (problems conf.Problems) {
	if c.HandoffSecret != "" && len(c.HandoffSecret) < guest.MinSecret {
		problems.Addf("handoff_secret", "must be at least %d bytes", guest.MinSecret)
	}
	if slices.ContainsFunc(c.OldHandoffSecrets, func(s string) bool { return len(s) < guest.MinSecret }) {
		problems.Addf("old_handoff_secrets", "each must be at least %d bytes", guest.MinSecret)
	}
	if c.HandoffLife < time.Second || c.HandoffLife > handoff.MaxLife {
		problems.Addf("handoff_life", "must be from 1s to 30m")
	}
	if !handoff.IsIssuer(c.HandoffIssuer) {
		problems.Addf("handoff_issuer", "must be 1 to 128 printable ASCII characters without spaces")
	}
	algorithm := func(at string, a Algorithm) {
		if a != "" && a != HMAC && a != Ed25519 {
			problems.Addf(at+"algorithm", "must be %s or %s", HMAC, Ed25519)
		}
	}
	algorithm("handoff_", c.HandoffAlgorithm)
	site := func(at string, url string, fingerprint, ip Mismatch) {
		if url != "" && !isSiteURL(url) {
			problems.Addf(at+"url", "must be an http or https URL, in which only {tenantId}, {propertyId}, {itemId} and {token} are in braces")
		}
		for key, m := range map[string]Mismatch{"fingerprint": fingerprint, "ip": ip} {
			if m != "" && m != MismatchRefuse && m != MismatchMark && m != MismatchIgnore {
				problems.Addf(at+key, "must be refuse, mark or ignore")
			}
		}
	}
	site("handoff_", c.HandoffURL, c.HandoffFingerprint, c.HandoffIP)
	for _, tenant := range slices.Sorted(maps.Keys(c.HandoffTenants)) {
		if id, ok := ident.ParseUUID(tenant); !ok || id != tenant {
			problems.Addf("handoff_tenants."+tenant, "must be named by a UUID in lower case")
		}
		t := c.HandoffTenants[tenant]
		site("handoff_tenants."+tenant+".", t.URL, t.Fingerprint, t.IP)
		algorithm("handoff_tenants."+tenant+".", t.Algorithm)
	}
	return problems
}

// isSiteURL reports whether a template is an http or https URL once its placeholders are filled.
func isSiteURL(text string) bool {
	text = strings.NewReplacer("{tenantId}", "t", "{propertyId}", "p", "{itemId}", "p", "{token}", "k").Replace(text)
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && !strings.ContainsAny(text, "{}\" \t\r\n")
}

// Site returns a tenant's booking site, with the settings that it inherits.
func (c *Config) Site(tenant string) BookingSite {
	t := c.HandoffTenants[tenant]
	return BookingSite{
		URL: cmp.Or(t.URL, c.HandoffURL), Fingerprint: cmp.Or(t.Fingerprint, c.HandoffFingerprint, MismatchRefuse), IP: cmp.Or(t.IP, c.HandoffIP, MismatchMark),
		Algorithm: cmp.Or(t.Algorithm, c.HandoffAlgorithm, HMAC),
	}
}
