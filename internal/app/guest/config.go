package guest

import (
	"regexp"
	"slices"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/guest/tenants"
)

// Config is the section [guest].
type Config struct {
	Enabled bool `toml:"enabled" doc:"Serve guest sessions, wishlists, handoffs to booking sites, and their events. Guests need no account, so the default is true only while other machines cannot reach the server: server.listen is a loopback address such as 127.0.0.1, and none of server.public_url, server.trusted_proxies and server.domain is set."`
	settings.Database
	settings.Sweep
	Events
	Profiles
	handoffs.Config
	telemetry.SampleRates
	tenants.Types
	Bots bots.Config `toml:"bots" doc:"Bot detection."`

	CookieSecret     string   `toml:"cookie_secret" secret:"true" doc:"Signs session cookies. At least 32 bytes, the same in all processes. Unset: generated and kept in the secrets file."`
	OldCookieSecrets []string `toml:"old_cookie_secrets" secret:"true" doc:"Former cookie secrets, whose cookies are still accepted."`

	Hot        string        `toml:"hot" secret:"true" doc:"Store for sessions and other expendable state: memory, for a single process, or redis://user:password@host:port/0 (rediss:// for TLS), a Redis server or cluster shared by all processes."`
	HotTimeout time.Duration `toml:"hot_timeout" doc:"Timeout for Redis operations. After it, the server continues without Redis."`
	HotPrefix  string        `toml:"hot_prefix" doc:"Prefix for all Redis keys, e.g. the environment name. Processes that share sessions need the same prefix."`

	HotMemory int64 `toml:"hot_memory" unit:"bytes" doc:"Memory for hot state without Redis. When full, the least recently used entries are dropped: caches first, then sessions with their preferences, but not their wishlists."`

	RateLimits bool                `toml:"rate_limits" reload:"true" doc:"Apply the rate limits in guest.rates to each session and client address."`
	Upstreams  catalogue.Upstreams `toml:"upstreams" doc:"HTTP services that provide the catalogue."`
	Campaign   bool                `toml:"campaign" doc:"Expect many guests: cache search results for 5 minutes instead of one."`

	Rates      guest.Rates `toml:"rates" reload:"true" doc:"Requests per session and minute. A client address gets ten times as much. Bursts are limited to a quarter, a third or half of it, depending on the kind."`
	NestErrors bool        `toml:"nested_errors" doc:"Wrap errors for front ends as {\"error\":{…}} with type application/json, for clients that expect it. Otherwise errors are application/problem+json (RFC 9457)."`
	Processes  int         `toml:"processes" doc:"Number of processes that serve guests. During a Redis outage, each process allows its share of guest.rates."`

	whyPublic string // why other machines may reach the server, if that turned the service off
}

const (
	// minHotMemory is the least hot_memory, in bytes.
	minHotMemory = 1 << 20

	hotMemory = "memory"
	// maxRate is the greatest rate limit, in requests per minute.
	maxRate = 1_000_000
	// maxHotTimeout keeps requests fast while Redis is unresponsive.
	maxHotTimeout = 250 * time.Millisecond
)

// hotPrefix excludes braces, which are special in Redis Cluster.
var hotPrefix = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// defaultConfig enables the service; check turns it off if other machines can reach the server.
func defaultConfig() Config {
	return Config{
		Enabled: true, Database: settings.DefaultDatabase(), Sweep: settings.DefaultSweep(), Events: defaultEvents(), Profiles: defaultProfiles(), Config: handoffs.DefaultConfig(), SampleRates: telemetry.DefaultSampleRates(), Types: tenants.DefaultTypes(), Bots: bots.DefaultConfig(),
		Hot: hotMemory, HotTimeout: 100 * time.Millisecond, HotPrefix: "prod", HotMemory: 64 << 20,
		RateLimits: true, Rates: guest.DefaultRates(), Upstreams: catalogue.DefaultUpstreams(), Processes: 1,
	}
}

// IsEnabled is final only after Guest.check, which may turn a default off.
func (c *Config) IsEnabled() bool { return c.Enabled }

// WhyOff explains that the default is off on public servers; see service.Explained.
func (c *Config) WhyOff() string {
	if c.whyPublic == "" {
		return ""
	}
	return c.whyPublic + ", so other machines may reach this server, and guests need no account: set guest.enabled = true to serve them, or false"
}

// Check joins the checks of all embedded sections with the checks of this section.
func (c *Config) Check() conf.Problems {
	problems := slices.Concat(c.Database.Check(), c.Sweep.Check(), c.Events.Check(), c.Profiles.Check(), c.Config.Check(), c.Upstreams.Check(), c.SampleRates.Check(), c.Types.Check())
	if c.CookieSecret != "" && len(c.CookieSecret) < guest.MinSecret {
		problems.Addf("cookie_secret", "must be at least %d bytes", guest.MinSecret)
	}
	for _, s := range c.OldCookieSecrets {
		if len(s) < guest.MinSecret {
			problems.Addf("old_cookie_secrets", "each must be at least %d bytes", guest.MinSecret)
			break
		}
	}
	if c.HotTimeout < time.Millisecond || c.HotTimeout > maxHotTimeout {
		problems.Addf("hot_timeout", "must be from 1ms to %s", maxHotTimeout)
	}
	if !hotPrefix.MatchString(c.HotPrefix) {
		problems.Addf("hot_prefix", "must be 1 to 63 letters, digits, dots, underscores and hyphens")
	}
	if c.HotMemory < minHotMemory {
		problems.Addf("hot_memory", "must be at least %d", minHotMemory)
	}
	if c.Processes < 1 {
		problems.Addf("processes", "must be at least 1")
	}
	if c.SweepLimit > retention.MaxStep {
		problems.Addf("sweep_limit", "must be at most %d", retention.MaxStep)
	}
	for _, p := range c.Bots.Check() {
		p.Key = "bots." + p.Key
		problems = append(problems, p)
	}
	for name, n := range map[string]int{
		"session": c.Rates.Session, "bootstrap": c.Rates.Bootstrap, "search": c.Rates.Search, "detail": c.Rates.Detail,
		"wishlist": c.Rates.Wishlist, "mint": c.Rates.Mint, "telemetry": c.Rates.Telemetry,
	} {
		if n < 1 || n > maxRate {
			problems.Addf("rates."+name, "must be from 1 to %d", maxRate)
		}
	}
	return problems
}
