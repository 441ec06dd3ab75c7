package policy

import (
	"slices"

	"holdfast/internal/buckets"
)

// IsPublic reports whether the policy is public as S3 defines it: a statement allows everybody and is not limited to
// fixed accounts or networks.
func (p *Policy) IsPublic() bool {
	for i := range p.statements {
		s := &p.statements[i]
		if s.allow && s.everybody && !s.isLimited() {
			return true
		}
	}
	return false
}

// allowsOthers reports whether a statement allows anyone but the bucket's owner. It ignores conditions and denials:
// whoever wants to claim a plain name can as well make the bucket public.
func (p *Policy) allowsOthers(owner buckets.AccountID) bool {
	return slices.ContainsFunc(p.statements, func(s statement) bool {
		return s.allow && (s.everybody || slices.ContainsFunc(s.ids, func(id buckets.AccountID) bool { return id != owner }))
	})
}

// isLimited reports whether a condition limits who or where the client is.
func (s *statement) isLimited() bool {
	for i := range s.conditions {
		if s.conditions[i].limits() {
			return true
		}
	}
	return false
}

// maxPublic4 and maxPublic6 are the prefix lengths of the largest networks that do not count as public, as in S3.
const maxPublic4, maxPublic6 = 8, 32

// limits reports whether the condition restricts the statement to fixed accounts or networks.
func (c *condition) limits() bool {
	if c.negated || c.ifExists || c.null || c.set == forAll {
		return false
	}
	switch c.key.name {
	case SourceIP:
		for i := range c.values {
			n := c.values[i].network
			if n.Addr().Is4() && n.Bits() < maxPublic4 || n.Addr().Is6() && n.Bits() < maxPublic6 {
				return false
			}
		}
		return true
	case PrincipalAccount, PrincipalArn:
		for i := range c.values {
			if c.values[i].broad {
				return false
			}
		}
		return true
	}
	return false
}
