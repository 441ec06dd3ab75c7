package inspection

import (
	"cmp"

	"holdfast/internal/errcode"
	"holdfast/internal/extstorage"
	"holdfast/internal/ident"
)

// SearchedNamespaces limits the namespaces that FindRecords searches.
const SearchedNamespaces = 1000

// Span is a range of installs, in the order of tenant and install.
type Span struct {
	Tenant extstorage.TenantID // the installs of this tenant, or
	All    bool                // the installs of all tenants
	After  extstorage.Owner    // the span starts after this owner; zero: at the first
	Last   extstorage.Owner    // the last owner in the span; zero: no limit
}

// Check rejects a span that sets neither Tenant nor All: a missing tenant must not
// mean all tenants.
func (s Span) Check() error {
	if (s.Tenant == "") != s.All {
		return errcode.New(errcode.Denied, "span: set Tenant or All")
	}
	for _, o := range []extstorage.Owner{s.After, s.Last} {
		if o == (extstorage.Owner{}) {
			continue
		}
		if err := o.Check(); err != nil {
			return err
		}
		if !s.All && o.Tenant != s.Tenant {
			return errcode.New(errcode.Denied, "span: After and Last must be installs of Tenant")
		}
	}
	return nil
}

// Bounds returns the owner after which the span starts, and the last owner in it.
// Where the span has no bound, they are before the first and after the last
// possible owner.
func (s Span) Bounds() (after, last extstorage.Owner) {
	const end = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	first := extstorage.Owner{Tenant: cmp.Or(s.Tenant, ident.NilUUID), Install: ident.NilUUID}
	return cmp.Or(s.After, first), cmp.Or(s.Last, extstorage.Owner{Tenant: cmp.Or(s.Tenant, end), Install: end})
}
