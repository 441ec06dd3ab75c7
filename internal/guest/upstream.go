package guest

import (
	"net/url"
	"strings"
	"time"
)

// Upstream configures an HTTP service that answers for a site's catalogue, and the cache for its answers.
type Upstream struct {
	Name       string        // also the cache's name
	URL        string        // "": not configured
	Path       []string      // names of the values that form the path
	Parameters []string      // names of the values that form the query
	Fresh      time.Duration // how long an answer is fresh, ±10 %
	Stale      time.Duration // how much longer it is kept, in case the upstream fails
}

// SearchUpstream names the upstream that finds items by criteria.
const SearchUpstream = "search"

// Key returns an answer's cache key; different values never collide.
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

// Address returns the URL for values.
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

// Upstream returns an upstream by name.
func (p *Profile) Upstream(name string) (u Upstream, found bool) {
	for _, u := range p.Upstreams {
		if u.Name == name {
			return u, true
		}
	}
	return u, false
}
