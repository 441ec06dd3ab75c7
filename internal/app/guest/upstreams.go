package guest

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
)

// UpstreamConfig is a catalogue service for a profile that is not hotel.
type UpstreamConfig struct {
	URL        string        `toml:"url" doc:"Service URL."`
	Path       []string      `toml:"path" doc:"Names of the path segments to append, e.g. itemId. They are part of the cache key."`
	Parameters []string      `toml:"parameters" doc:"Names of query parameters to append. They are part of the cache key. locale and currency default to the guest's preferences."`
	Fresh      time.Duration `toml:"fresh" doc:"How long a response is fresh, give or take a tenth. 0: 1m."`
	Stale      time.Duration `toml:"stale" doc:"How long to keep a stale response as a fallback if the service fails. 0: 10m."`
}

const (
	// Defaults and limits of UpstreamConfig. maxNames limits path segments and parameters together, because they are a
	// cache key.
	defaultFresh = time.Minute
	maxFresh     = 24 * time.Hour
	maxStale     = 7 * 24 * time.Hour
	maxNames     = 10
)

// parameterName is stricter than URLs require, so that names need no escaping.
var parameterName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// checkCatalogue requires the search criteria and the upstream search together. at begins the settings' names.
func (p *ProfileConfig) checkCatalogue(at string, problems *conf.Problems) {
	if p.Criteria != "" {
		if err := guest.CheckSchema([]byte(p.Criteria)); err != nil {
			problems.Addf(at+"criteria", "must be a JSON Schema: it %s", err.Error())
		}
	}
	if _, found := p.Upstreams[guest.SearchUpstream]; found != (p.Criteria != "") {
		problems.Addf(at+"criteria", "must be set if there is an upstream %s, and only then", guest.SearchUpstream)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Upstreams)) {
		u, at := p.Upstreams[name], at+"upstreams."+name
		if !profileName.MatchString(name) {
			problems.Addf(at, "needs another name: 1 to 32 characters from a-z, 0-9 and -")
		}
		u.check(at, problems)
		if name == guest.SearchUpstream && len(u.Path)+len(u.Parameters) > 0 {
			problems.Addf(at, "must not set path or parameters: it receives the criteria")
		}
	}
}

// check adds problems; at is the upstream's name in the configuration.
func (u *UpstreamConfig) check(at string, problems *conf.Problems) {
	if !catalogue.IsUpstream(u.URL) {
		problems.Addf(at+".url", "%s", catalogue.ExpectedUpstream)
	}
	names := slices.Concat(u.Path, u.Parameters)
	distinct := slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxNames || len(distinct) < len(names) || slices.ContainsFunc(names, func(n string) bool { return !parameterName.MatchString(n) }) {
		problems.Addf(at+".path", "path and parameters: expected at most %d different names, each a letter followed by up to 31 letters, digits, - and _", maxNames)
	}
	if u.Fresh < 0 || u.Fresh > maxFresh {
		problems.Addf(at+".fresh", "must be from 0 to %s", maxFresh)
	}
	if u.Stale < 0 || u.Stale > maxStale {
		problems.Addf(at+".stale", "must be from 0 to %s", maxStale)
	}
}

// upstreams returns the services ordered by name, with defaults instead of 0.
func (p *ProfileConfig) upstreams() (all []guest.Upstream) {
	for _, name := range slices.Sorted(maps.Keys(p.Upstreams)) {
		u := p.Upstreams[name]
		all = append(all, guest.Upstream{
			Name: name, URL: u.URL, Path: u.Path, Parameters: u.Parameters, Fresh: cmp.Or(u.Fresh, defaultFresh), Stale: cmp.Or(u.Stale, catalogue.StaleLife),
		})
	}
	return all
}
