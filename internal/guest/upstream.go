package guest

import (
	"net/url"
	"strings"
	"time"
)

// Upstream is an HTTP service that has answers of the catalogue of a site, and the cache in front of it.
type Upstream struct {
	Name       string        // of the upstream and of its cache
	URL        string        // "": it is not configured
	Path       []string      // names of the segments after the URL
	Parameters []string      // names of the parameters in the query of the URL
	Fresh      time.Duration // how long an answer is fresh, a tenth more or less
	Stale      time.Duration // how long an answer is kept after that, for when the upstream fails
}

// SearchUpstream is the name of the upstream that finds items by criteria.
const SearchUpstream = "search"

// Key returns the key of an answer in the cache. Different values have different keys.
func (u *Upstream) Key(values url.Values) string {
	var b strings.Builder
	b.WriteString("cache:" + u.Name)
	for _, names := range [][]string{u.Path, u.Parameters} {
		for _, name := range names {
			b.WriteString(":" + url.QueryEscape(values.Get(name)))
		}
	}
	return b.String()
}

// Address returns the URL of an answer.
func (u *Upstream) Address(values url.Values) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(u.URL, "/"))
	for _, name := range u.Path {
		b.WriteString("/" + url.PathEscape(values.Get(name)))
	}
	query := url.Values{}
	for _, name := range u.Parameters {
		if values.Has(name) {
			query.Set(name, values.Get(name))
		}
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// Upstream returns the upstream with a name.
func (p *Profile) Upstream(name string) (u Upstream, found bool) {
	for _, u := range p.Upstreams {
		if u.Name == name {
			return u, true
		}
	}
	return u, false
}
