package guest

import (
	"cmp"
	"encoding/json"
)

// Site is the part of a profile that every site chooses for itself, a hotel search, too.
type Site struct {
	AttributesLimit  int             // bytes of a session's attributes; 0: MaxAttributes
	AttributesSchema json.RawMessage // JSON Schema of attributes; nil: any object

	Merge MergeRule // of lists when a guest signs in; "": MergeUnion

	Origins      []string // of other hosts whose pages may send requests, such as https://www.example.com
	CookieDomain string   // the cookie is sent to all its hosts; "": only to the host of the API
}

// site returns the part of the profile that every site has.
func (p *Profile) site() *Site {
	if p == nil {
		return &Hotel.Site
	}
	return &p.Site
}

func (s *Site) merge() MergeRule { return cmp.Or(s.Merge, MergeUnion) }

// AllowedOrigins returns the origins of other hosts whose pages may send requests.
func (p *Profile) AllowedOrigins() []string { return p.site().Origins }

// Domain returns the domain of the cookie; "": only the host of the API gets it.
func (p *Profile) Domain() string { return p.site().CookieDomain }

// MaxAttributes returns how many bytes the attributes of a session may have.
func (p *Profile) MaxAttributes() int {
	if n := p.site().AttributesLimit; n > 0 {
		return min(n, MaxAttributes)
	}
	return MaxAttributes
}
