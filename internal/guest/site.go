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
}

// site returns the part of the profile that every site has.
func (p *Profile) site() *Site {
	if p == nil {
		return &Hotel.Site
	}
	return &p.Site
}

func (s *Site) merge() MergeRule { return cmp.Or(s.Merge, MergeUnion) }

// MaxAttributes returns how many bytes the attributes of a session may have.
func (p *Profile) MaxAttributes() int {
	if n := p.site().AttributesLimit; n > 0 {
		return min(n, MaxAttributes)
	}
	return MaxAttributes
}
