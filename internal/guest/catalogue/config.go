package catalogue

import (
	"net/url"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/guest"
)

// Upstreams is the section [guest.upstreams], for profile hotel. An empty URL: that upstream always fails, unless all
// are empty.
type Upstreams struct {
	Search       string `toml:"search" doc:"Property search: POST with a query. If no service in this section is set, the built-in catalogue of invented hotels is used."`
	Map          string `toml:"map" doc:"Property search for the map: POST with a query."`
	Detail       string `toml:"detail" doc:"Property details: GET URL/PROPERTY?locale=&currency="`
	Availability string `toml:"availability" doc:"Availability: GET URL/PROPERTY?from=&to=&adults=&children=&rooms="`
	Facets       string `toml:"facets" doc:"Facet counts for a region: GET URL/COUNTRY/REGION"`
	Brand        string `toml:"brand" doc:"Tenant details: GET URL/TENANT"`
	Property     string `toml:"property" doc:"A property's tenant: GET URL/PROPERTY"`

	Token   string        `toml:"token" secret:"true" doc:"Bearer token for all these services. Empty: none."`
	Timeout time.Duration `toml:"timeout" doc:"Timeout per call, at most 4s."`
	MaxBody int64         `toml:"max_body" unit:"bytes" doc:"Maximum response size."`
}

// DefaultUpstreams sets no service: the built-in catalogue is used.
func DefaultUpstreams() Upstreams {
	return Upstreams{Timeout: 1500 * time.Millisecond, MaxBody: 1 << 20}
}

// Hotel search upstreams. Their cache keys predate guest.Upstream.Key.
var (
	UpstreamSearch       = guest.Upstream{Name: guest.SearchUpstream, Fresh: time.Minute, Stale: StaleLife}
	UpstreamMap          = guest.Upstream{Name: "map", Fresh: time.Minute, Stale: StaleLife}
	UpstreamDetail       = guest.Upstream{Name: "detail", Path: []string{"property"}, Parameters: []string{"locale", "currency"}, Fresh: 5 * time.Minute, Stale: StaleLife}
	UpstreamAvailability = guest.Upstream{
		Name: "availability", Path: []string{"property"}, Parameters: []string{"from", "to", "adults", "children", "rooms"}, Fresh: time.Minute, Stale: StaleLife,
	}
	UpstreamFacets   = guest.Upstream{Name: "facets", Path: []string{"country", "region"}, Fresh: time.Hour, Stale: StaleLife}
	UpstreamBrand    = guest.Upstream{Name: "brand", Path: []string{"tenant"}, Fresh: 15 * time.Minute, Stale: StaleLife}
	UpstreamProperty = guest.Upstream{Name: "property", Path: []string{"property"}, Fresh: 5 * time.Minute, Stale: StaleLife}
)

// Hotel returns the hotel upstreams with their configured URLs.
func (u *Upstreams) Hotel() []guest.Upstream {
	all := []guest.Upstream{UpstreamSearch, UpstreamMap, UpstreamDetail, UpstreamAvailability, UpstreamFacets, UpstreamBrand, UpstreamProperty}
	for i, address := range []string{u.Search, u.Map, u.Detail, u.Availability, u.Facets, u.Brand, u.Property} {
		all[i].URL = address
	}
	return all
}

// BuiltIn reports whether no service is set.
func (u *Upstreams) BuiltIn() bool {
	for _, h := range u.Hotel() {
		if h.URL != "" {
			return false
		}
	}
	return true
}

// Check returns malformed URLs and values out of range.
func (u *Upstreams) Check() (problems conf.Problems) {
	for _, h := range u.Hotel() {
		if h.URL != "" && !IsUpstream(h.URL) {
			problems.Addf("upstreams."+h.Name, "%s", ExpectedUpstream)
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

// ExpectedUpstream is the error for URLs that IsUpstream rejects.
const ExpectedUpstream = "must be an http or https URL without user, query and fragment"

// IsUpstream accepts upstream URLs.
func IsUpstream(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
