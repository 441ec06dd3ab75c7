package app

import (
	"net/url"
	"strings"

	"holdfast/internal/conf"
)

// Reference is docs/configuration.md.
func Reference() string {
	d := DefaultConfig()
	return "# Configuration\n\n" +
		"Made by `holdfast config reference`; `holdfast config example` prints a file with every default. Nothing has to be\n" +
		"configured. Settings come from, the later over the earlier: defaults, the TOML file (`--config`), the names of the\n" +
		"reference server (`SYNC_…`), and `HOLDFAST_…`.\n\n" +
		conf.Reference(&d, Aliases()...)
}

// redact is a database URL without its password, for people.
func redact(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme == "" {
		return "PostgreSQL" // the key=value form, or worse
	}
	where := u.Scheme + "://" + u.Host + u.Path
	return strings.TrimSuffix(where, "/")
}
