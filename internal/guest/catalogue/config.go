package catalogue

import (
	"net/url"
	"time"

	"holdfast/internal/conf"
)

// Upstreams are the HTTP services of the catalogue.
type Upstreams struct {
	Search       string `toml:"search" doc:"Finds properties: POST with a query. If none of these services is set, the built-in catalogue of invented hotels is used."`
	Map          string `toml:"map" doc:"Finds properties for the map: POST with a query."`
	Detail       string `toml:"detail" doc:"Describes a property: GET URL/PROPERTY?locale=&currency="`
	Availability string `toml:"availability" doc:"Says what a property offers: GET URL/PROPERTY?from=&to=&adults=&children=&rooms="`
	Facets       string `toml:"facets" doc:"Counts the properties of a region: GET URL/COUNTRY/REGION"`
	Brand        string `toml:"brand" doc:"Describes a tenant: GET URL/TENANT"`
	Property     string `toml:"property" doc:"Says to which tenant a property belongs: GET URL/PROPERTY"`

	Token   string        `toml:"token" secret:"true" doc:"Sent to all of them as a bearer token. Empty: none."`
	Timeout time.Duration `toml:"timeout" doc:"How long a call may take. At most 4s."`
	MaxBody int64         `toml:"max_body" unit:"bytes" doc:"Size of the largest answer that is accepted."`
}

// DefaultUpstreams returns the defaults.
func DefaultUpstreams() Upstreams {
	return Upstreams{Timeout: 1500 * time.Millisecond, MaxBody: 1 << 20}
}

// URLs returns the services by the names of their caches; "" for one that is not set.
func (u *Upstreams) URLs() map[string]string {
	return map[string]string{
		CacheSearch.Name: u.Search, CacheMap.Name: u.Map, CacheDetail.Name: u.Detail, CacheAvailability.Name: u.Availability,
		CacheFacets.Name: u.Facets, CacheBrand.Name: u.Brand, CacheProperty.Name: u.Property,
	}
}

// BuiltIn reports whether no service is set.
func (u *Upstreams) BuiltIn() bool {
	for _, address := range u.URLs() {
		if address != "" {
			return false
		}
	}
	return true
}

// Check reports every invalid setting.
func (u *Upstreams) Check() (problems conf.Problems) {
	for name, address := range u.URLs() {
		if address == "" {
			continue
		}
		parsed, err := url.Parse(address)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			problems.Addf("upstreams."+name, "must be an http or https URL without user, query and fragment")
		}
	}
	if u.Timeout < time.Millisecond || u.Timeout > MaxUpstreamTimeout {
		problems.Addf("upstreams.timeout", "must be from 1ms to %s", MaxUpstreamTimeout)
	}
	if u.MaxBody < 1<<10 || u.MaxBody > 64<<20 {
		problems.Addf("upstreams.max_body", "must be from 1 KiB to 64 MiB")
	}
	return problems
}
