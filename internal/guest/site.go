package guest

import (
	"cmp"
	"encoding/json"
)

// Site is the part of a profile that every site can configure, including hotel.
type Site struct {
	AttributesLimit  int             // maximum bytes per session; 0: MaxAttributes
	AttributesSchema json.RawMessage // JSON Schema for attributes; nil: any object

	Merge MergeRule // at sign-in; "": MergeUnion

	Origins      []string // other origins that may send requests, e.g. https://www.example.com
	CookieDomain string   // "": host-only
}

// site returns the part that every profile has.
func (p *Profile) site() *Site {
	if p == nil {
		return &Hotel.Site
	}
	return &p.Site
}

// merge returns the rule, with its default.
func (s *Site) merge() MergeRule { return cmp.Or(s.Merge, MergeUnion) }

// AllowedOrigins returns Site.Origins.
func (p *Profile) AllowedOrigins() []string { return p.site().Origins }

// Domain returns Site.CookieDomain.
func (p *Profile) Domain() string { return p.site().CookieDomain }

// MaxAttributes returns the limit in bytes.
func (p *Profile) MaxAttributes() int {
	if n := p.site().AttributesLimit; n > 0 {
		return min(n, MaxAttributes)
	}
	return MaxAttributes
}
