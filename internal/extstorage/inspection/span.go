package inspection

import (
	"cmp"

	"holdfast/internal/errcode"
	"holdfast/internal/extstorage"
	"holdfast/internal/ident"
)

// SearchedNamespaces limits how many namespaces FindRecords searches.
const SearchedNamespaces = 1000

// Span is a range of installs ordered by tenant and install. Set Tenant or All.
type Span struct {
	Tenant extstorage.TenantID
	All    bool
	After  extstorage.Owner // exclusive; zero means from the start
	Last   extstorage.Owner // inclusive; zero means to the end
}

// Check returns an error unless Tenant or All is set: a missing tenant must not mean all.
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

// Bounds returns the owner before the span and its last owner, or values beyond any owner.
func (s Span) Bounds() (after, last extstorage.Owner) {
	const end = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	first := extstorage.Owner{Tenant: cmp.Or(s.Tenant, ident.NilUUID), Install: ident.NilUUID}
	return cmp.Or(s.After, first), cmp.Or(s.Last, extstorage.Owner{Tenant: cmp.Or(s.Tenant, end), Install: end})
}
