package guest

import (
	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config is the section [guest].
type Config struct {
	Enabled bool `toml:"enabled" doc:"Serve guests. In development: it serves sessions and wishlists only."`
	settings.Database
	settings.Sweep

	CookieSecret     string   `toml:"cookie_secret" secret:"true" doc:"Signs the cookies of sessions. At least 32 bytes, and the same on all processes. Unset: generated and kept in the secrets file."`
	OldCookieSecrets []string `toml:"old_cookie_secrets" secret:"true" doc:"Former cookie secrets. Cookies that were signed with them are still accepted."`

	SessionMemory int64 `toml:"session_memory" unit:"bytes" doc:"Memory for sessions. When it is full, the session that was not used for longest is forgotten: its preferences are lost, its wishlist is not."`
}

const (
	minSecret        = 32
	minSessionMemory = 1 << 20
)

// DefaultConfig returns the section's defaults.
func DefaultConfig() Config {
	return Config{Database: settings.DefaultDatabase(), Sweep: settings.DefaultSweep(), SessionMemory: 64 << 20}
}

// IsEnabled reports whether the service is configured to be served.
func (c *Config) IsEnabled() bool { return c.Enabled }

// Check reports every invalid setting.
func (c *Config) Check() conf.Problems {
	problems := append(c.Database.Check(), c.Sweep.Check()...)
	if c.CookieSecret != "" && len(c.CookieSecret) < minSecret {
		problems.Addf("cookie_secret", "must have at least %d bytes", minSecret)
	}
	for _, s := range c.OldCookieSecrets {
		if len(s) < minSecret {
			problems.Addf("old_cookie_secrets", "each must have at least %d bytes", minSecret)
			break
		}
	}
	if c.SessionMemory < minSessionMemory {
		problems.Addf("session_memory", "must be at least %d", minSessionMemory)
	}
	return problems
}
